"""What came of a run, in words: one sentence, its facts, and the commands that come next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from functions.domain.failure import UNREADABLE
from functions.domain.run import Counts
from functions.domain.window import Window, utc_text
from tools.application import Application
from tools.command_line import aws_line, command_line
from tools.dispatchctl.units import NONE, count_text, moment_text, seconds_text, some
from tools.runs.records import ALREADY_RUNNING, STOPPED, RunRecord

_CONSOLES: Final = {"aws": "aws.amazon.com", "aws-cn": "amazonaws.cn", "aws-us-gov": "amazonaws-us-gov.com"}
"""The console's domain in each partition."""

ADVICE: Final = {
    "InvalidInput": "The input was refused, nothing was read: mend the field that the message names.",
    "IndexNotReady": "The bookings' index is still being built. Go on when it is active.",
    "ConfigurationError": "A name or a right of the stack is wrong. Its owner mends it; `doctor` finds it.",
    "TooManyBadRecords": (
        "The owner of the bookings mends those that were set aside, and the hour is run anew: a resume reads no page"
        " again. Or the limit is raised, and the run resumed."
    ),
    "WindowBusy": "The run of a neighbouring hour did not end within an hour. Go on when it has.",
    "LeaseLost": "Another execution has taken over: look at that one.",
    "NotApproved": "Nobody but the one who asked for it can say what comes next.",
    "TransientError": "AWS throttled or timed out for longer than the retries last. Nothing needs to be mended.",
    "InvalidToken": "The developers must see this.",
    "TokenNotAdvancing": "The developers must see this.",
    "DispatchFailed": "The developers must see this.",
    "ABORTED": "Somebody has stopped this execution.",
    "TIMED_OUT": "It ran for as long as the machine lets one run.",
}
"""What to do about each end that is none of a run's own outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """A command that can come next, and what it does."""

    command: str
    why: str

    @classmethod
    def of(cls, command: str, why: str) -> "Next":
        """A command of this command line, for the same application."""
        return cls(command=command_line(command), why=why)


def hours_text(window: Window | None) -> str:
    """`2026-09-17 15:00 to 16:00 UTC`."""
    return "an unknown hour" if window is None else f"{window.start:%Y-%m-%d %H:%M} to {window.end:%H:%M} UTC"


def sentence(record: RunRecord, now: datetime) -> str:
    """What became of a run, in one or two sentences."""
    counts, hour = record.totals or Counts(), hours_text(record.window)
    took = seconds_text(record.seconds(now))
    ago = _ago(record, now)
    ended = f" and ended{ago}" if ago else ""
    read = some(counts.evaluated, "booking")
    tasks = some(counts.tasks, "task")
    rest = "".join(
        (
            f"; {counts.already_dispatched:,} dispatched before" if counts.already_dispatched else "",
            f"; {counts.set_aside:,} set aside as bad data" if counts.set_aside else "",
        )
    )
    match record.outcome:
        case None:
            return (
                f"The run of {hour} has been at work for {took}{_span(record)}: {read} read,"
                f" {counts.dispatched:,} dispatched in {tasks} so far{rest}."
            )
        case "Dispatched":
            return (
                f"The run of {hour} read {read} and dispatched {counts.dispatched:,} in {tasks}{rest}."
                f" It took {took}{_span(record)}{ended}."
            )
        case "DryRun":
            return (
                f"The dry run of {hour} read {read} and changed nothing; a run would dispatch {counts.dispatched:,}"
                f" in {tasks}{rest}. It took {took}{_span(record)}{ended}."
            )
        case "Stopped":
            return (
                f"The run of {hour} was stopped by the kill switch{ago}, behind {some(counts.pages, 'page')}:"
                f" {read} were read and {counts.dispatched:,} dispatched in {tasks}{rest}."
            )
        case "AlreadyRunning":
            return f"Nothing was done for {hour}: run {record.detail.get('RunId')} works on it."
    reached = (
        f"{read} had been read and {counts.dispatched:,} dispatched in {tasks}" if record.totals else "nothing was read"
    )
    return f"The run of {hour} failed{ago} {place_text(record.detail)}: {failure(record)}. Before that {reached}{rest}."


def _span(record: RunRecord) -> str:
    """What a time is of, where the counts beside it are of more than this execution."""
    return " in this execution" if record.goes_on else ""


def _ago(record: RunRecord, now: datetime) -> str:
    """When it ended, with a blank before; nothing where that is now, or is still to come."""
    if record.ended is None or record.ended >= now:
        return ""
    seconds = (now - record.ended).total_seconds()
    return f" {seconds_text(seconds)} ago" if seconds >= 1 else " just now"


def failure(record: RunRecord) -> str:
    """The error and its message, on one line."""
    message = str(record.detail.get("Message") or "").removesuffix(".")
    error = str(record.detail.get("Error") or record.outcome)
    named = error if error == record.outcome else f"{record.outcome} ({error})"
    return f"{named}: {message}" if message and message != UNREADABLE else named


def place_text(detail: Mapping[str, Any]) -> str:
    """Where a run failed: a page, a chunk of the full path, or one of its lanes."""
    page, lane = detail.get("Page"), detail.get("Lane")
    if page is None and lane is None:
        return "between its lanes" if "Totals" in detail else "at its start"
    piece = "chunk" if detail.get("Path") == "full" else "page"
    return f"at {piece} {page}" + ("" if lane is None else f" of lane {lane} ({detail.get('Step')})")


def next_commands(record: RunRecord, *, is_stopped: bool = True) -> list[Next]:
    """What to do now, most useful first; nothing where all is done. `is_stopped` is whether the kill switch is on."""
    if record.is_running:
        return [
            Next.of(f"show {record.name} --follow", "watch it until it ends"),
            Next.of(f"stop --execution {record.name}", "end it"),
        ]
    if record.gone_on_by is not None:
        return [Next.of(f"show {record.gone_on_by}", "see the execution that has gone on with it")]
    return _behind_a_good_end(record, is_stopped=is_stopped) if record.ended_well else _behind_a_failure(record)


def _behind_a_failure(record: RunRecord) -> list[Next]:
    if record.hour is None or record.outcome == "InvalidInput":
        return [Next.of("run --help", "what an input may say")]
    if record.outcome == "LeaseLost":
        return [Next.of(f"status --hour {record.hour}", "find the one that has taken over")]
    if record.dry_run:
        return [Next.of(f"run --hour {record.hour} --dry-run", "try again, when that is mended")]
    if record.outcome == "TooManyBadRecords":
        anew = "once the bookings are mended: a new run, which skips what was dispatched"
        return [
            Next.of(f"run --hour {record.hour}", anew),
            Next.of(f"resume {record.hour}", "once the limit was raised: go on where it ended"),
        ]
    return [_resume(record)]


def _behind_a_good_end(record: RunRecord, *, is_stopped: bool) -> list[Next]:
    if record.outcome == ALREADY_RUNNING:
        return [Next.of(f"show {record.detail.get('RunId')} --follow", "watch the one that works")]
    if record.outcome == STOPPED:
        clear = [Next.of("stop --clear", "let runs go on")] if is_stopped else []
        return [*clear, _resume(record)]
    return []


def _resume(record: RunRecord) -> Next:
    return Next.of(f"resume {record.hour}", "go on where it ended; nothing is dispatched twice")


def failure_view(application: Application, record: RunRecord) -> str:
    """A failed run for whoever is on call: what, where, why, and exactly what to do next."""
    outcome = str(record.outcome)
    lines = [
        sentence(record, record.ended or record.started),
        ADVICE.get(outcome, "The developers must see this."),
    ]
    if outcome == "TooManyBadRecords" and record.window is not None:
        bucket = application.deployment.outputs["TaskDataBucketName"]
        lines += [
            f"  files  s3://{bucket}/set-aside/{record.window.start:%Y-%m-%d/%H}/{record.run_id}/",
            f"  limit  {parameter_line(application, 'SetAsideLimitParameter', 'NUMBER')}",
        ]
    lines += [f"  where  {where(application, record.execution)}"]
    lines += [f"  next   {step.command}    # {step.why}" for step in next_commands(record)]
    return "\n".join(lines)


def parameter_line(application: Application, output: str, value: str) -> str:
    """The command that sets the parameter which this output of the stack names.

    The embedded AWS is named in it: without that the command would go to whatever account the shell speaks to.
    """
    local = f"--endpoint-url {application.deployment.endpoint} " if application.account is None else ""
    name = application.deployment.outputs[output]
    return aws_line(f"{local}ssm put-parameter --overwrite --name {name} --value {value}")


def where(application: Application, execution: str) -> str:
    """Where the console shows an execution; on the embedded AWS, which has no console, its ARN."""
    if application.account is None:
        return execution
    domain = _CONSOLES.get(execution.split(":")[1], _CONSOLES["aws"])
    region = application.deployment.region
    host = f"{region}.console" if domain == _CONSOLES["aws"] else "console"
    return f"https://{host}.{domain}/states/home?region={region}#/v2/executions/details/{execution}"


def balance(counts: Counts) -> str:
    """The equality that always holds of a run's counts, and whether it does."""
    parts = counts.dispatched + counts.already_dispatched + counts.set_aside
    return (
        f"{counts.waiting:,} waiting {'=' if parts == counts.waiting else '≠'} {counts.dispatched:,} dispatched"
        f" + {counts.already_dispatched:,} before + {counts.set_aside:,} set aside"
        f"  ({'adds up' if parts == counts.waiting else 'DOES NOT ADD UP'})"
    )


def run_view(application: Application, record: RunRecord, now: datetime, *, is_stopped: bool = True) -> RenderableType:
    """A run's facts and counts; `is_stopped` is whether the kill switch is on."""
    facts = facts_grid(_facts(application, record, now), next_commands(record, is_stopped=is_stopped))
    return Group(Text(sentence(record, now)), Text(), facts)


def facts_grid(facts: dict[str, str], steps: Iterable[Next] = ()) -> Table:
    """Facts by their names, and the commands that come next."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    for step in steps:
        grid.add_row("Next", Text(f"{step.command}  # {step.why}"))
    return grid


def _facts(application: Application, record: RunRecord, now: datetime) -> dict[str, str]:
    counts = record.totals
    ended = "runs" if record.is_running else moment_text(record.ended)
    ends = f"{moment_text(record.started)} to {ended} UTC, {seconds_text(record.seconds(now))}{_span(record)}"
    facts = {
        "Hour": hours_text(record.window),
        "Outcome": record.outcome or "running",
        "Run": record.run_id or NONE,
        "Execution": f"{record.name}{' (went on with a run that was begun before)' if record.goes_on else ''}",
        "Where": where(application, record.execution),
        "Path": f"{record.path or NONE}, {count_text(record.page_size)} bookings a page at most",
        "Time": ends + (f", redriven {record.redrives} times" if record.redrives else ""),
    }
    if counts is not None:
        facts |= {
            "Read": f"{some(counts.evaluated, 'booking')} on {some(counts.pages, 'page')}",
            "Waiting": balance(counts),
            "Tasks": f"{count_text(counts.tasks)} of {some(counts.groups, 'group')}",
        }
    if record.outcome in ADVICE:
        facts |= {"Failed": f"{place_text(record.detail)}: {failure(record)}", "To do": ADVICE[str(record.outcome)]}
    return facts


def record_json(record: RunRecord, now: datetime) -> dict[str, Any]:
    """A run for machines: names as in the contract's outputs."""
    window = record.window
    return {
        "RunId": record.run_id,
        "Execution": record.execution,
        "WindowStart": window and window.start_text,
        "WindowEnd": window and window.end_text,
        "Path": record.path,
        "PageSize": record.page_size,
        "Status": record.status,
        "Outcome": record.outcome,
        "StartedAt": utc_text(record.started),
        "EndedAt": record.ended and utc_text(record.ended),
        "DurationSeconds": round(record.seconds(now), 3),
        "Redrives": record.redrives,
        "DryRun": record.dry_run,
        "Resume": record.resumes,
        "Totals": record.totals and record.totals.to_state(),
        "Detail": dict(record.detail),
    }
