"""What became of one booking, or why nothing did."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from functions.domain.task import JOB_NAMES
from functions.domain.window import Window
from functions.worker.task import Outcome
from tools.dispatchctl.outcome import Next, facts_grid, hours_text
from tools.dispatchctl.shell import AsJson, CommandError, ExitCode, app, application_of, show
from tools.dispatchctl.units import moment_text
from tools.runs.records import hour_of, hour_text
from tools.runs.why import (
    Cause,
    Grant,
    InTask,
    Met,
    SetAside,
    Staged,
    State,
    Story,
    UnknownBookingError,
    Untouched,
    state_of,
    story_of,
)

VERDICTS: Final = {
    State.GRANTED: "Dispatched and granted.",
    State.DEAD: "Dispatched and not granted: workers gave its task up, and the message lies on a dead-letter queue.",
    State.SETTLED: "Dispatched and not granted: a worker has settled its task, and granted nothing for this booking.",
    State.SENT: "Dispatched: it is in a task that was sent.",
    State.IN_DOUBT: "In doubt: it is in a task that is not known to be sent.",
    State.SET_ASIDE: "Not dispatched: it was set aside as bad data.",
    State.STAGED: "Not dispatched yet: a run has read it, and is to merge its group.",
}
ONCE: Final = {
    State.GRANTED: "Dispatched and granted",
    State.DEAD: "Dispatched and not granted",
    State.SETTLED: "Dispatched and not granted",
    State.SENT: "Dispatched",
    State.IN_DOUBT: "Perhaps dispatched",
    State.SET_ASIDE: "Not dispatched but set aside as bad data",
}
"""What it had come to before it was moved or deleted."""
SKIPS: Final = {
    Outcome.NOT_WAITING: "it does not wait any more",
    Outcome.CHANGED: "its shop, member, engine or reward is another one by now, or bad data",
    Outcome.GONE: "it is gone",
}
CAUSES: Final = {
    Cause.NOT_WAITING: 'only the status "WaitToReward" waits for a reward.',
    Cause.NO_INDEX_KEY: "no hour's run ever reads it, for {detail}.",
    Cause.HOUR_NOT_ENDED: "no run has worked on {hour}, which has not ended.",
    Cause.NO_RUN: "no run has worked on {hour}.",
    Cause.RUN_NOT_ENDED: "it was not read yet by run {run} of {hour}, which has not ended.",
    Cause.RUN_FAILED: "it was not read by run {run}, the last of {hour}, which ended {outcome}.",
    Cause.NOT_READ: (
        "it was not read by run {run}, the last of {hour}, which came to its end: the booking arrived, was moved or"
        " began to wait behind that."
    ),
}


@app.command()
def why(
    context: typer.Context,
    record: Annotated[str, typer.Argument(metavar="RECORD", help="The value of the bookings table's key.")],
    sort_value: Annotated[
        str | None, typer.Argument(metavar="[SORT_VALUE]", help="And of its sort key, where it has one.")
    ] = None,
    *,
    hour: Annotated[
        list[str] | None,
        typer.Option(metavar="HOUR", help="Look there too: where it was booked before it was moved or deleted."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say everything that is known of one booking, or why it was not dispatched, and what to do then."""
    application, now = application_of(context), datetime.now(UTC)
    also = [hour_of(each, "--hour") for each in hour or ()]
    values = [record] if sort_value is None else [record, sort_value]
    try:
        with Console(stderr=True).status("Looking through the plans of its hours ..."):
            story = story_of(application, values, now, also)
    except UnknownBookingError as error:
        raise CommandError(str(error), ExitCode.NOT_FOUND) from None
    show(to_json(story), lambda: view(story), as_json=as_json)


def verdict(story: Story) -> str:
    """What the booking has come to as it stands, and before that, in a sentence or two."""
    task, skip = story.current, ""
    if task is not None and task.skipped in SKIPS and story.state not in {State.GRANTED, State.SETTLED}:
        skip = f" A worker that has not settled it yet skips it: {SKIPS[task.skipped]} ({task.skipped})."
    return f"{_headline(story)}{skip}"


def _headline(story: Story) -> str:
    if story.deleted and story.state in ONCE:
        return f"{ONCE[story.state]}, and deleted since."
    now = VERDICTS.get(story.state) or f"Not dispatched: {reasons(story)}"
    if story.earlier is None:
        return now
    return (
        f"{ONCE[state_of(story.earlier)]} as it was booked for {story.earlier.met.moment}, and moved since:"
        f" as it stands now, it is {now[0].lower()}{now[1:]}"
    )


def reasons(story: Story) -> str:
    """Why nothing was done with it as it stands."""
    if not story.untouched:
        return "the table does not hold it any more."
    first, *others = map(reason, story.untouched)
    return " ".join((first, *(f"{other[0].upper()}{other[1:]}" for other in others)))


def reason(untouched: Untouched) -> str:
    """Why an hour's runs did nothing with it."""
    return CAUSES[untouched.cause].format(
        hour=f"the hour {hours_text(untouched.window)}",
        run=untouched.run_id,
        outcome=untouched.outcome,
        detail=untouched.detail,
    )


def next_commands(story: Story) -> Iterator[Next]:
    """What to do to have it dispatched."""
    task = story.current
    if story.state is State.IN_DOUBT and task is not None:
        hour = hour_text(task.met.window)
        yield Next.of(f"resume {hour}", "send what is in doubt; nothing is sent twice")
    if story.state is State.STAGED:
        hour = hour_text(story.staged[0].met.window)
        yield Next.of(f"show {hour}", "whether its run is still at work")
        yield Next.of(f"resume {hour}", "go on with it, if it is not")
    if (story.fault or story.state is State.SET_ASIDE) and story.hours:
        hour = hour_text(_reader(story))
        yield Next.of(f"run --hour {hour}", "once its owner has mended it")
    elif story.untouched:
        yield from _mending(story.untouched[-1])  # on an edge, of the hour that begins there: one is enough
    if story.state is State.NOT_DISPATCHED and not (story.deleted or story.tasks or story.named):
        yield Next.of(f"why {shlex.join(story.values)} --hour OLDHOUR", "if it was moved, look there too")


def _reader(story: Story) -> Window:
    """Whose run is to read it again: the hour that set it aside, else the one that begins where two read it."""
    return story.aside.met.window if story.aside else story.hours[-1]


def _mending(untouched: Untouched) -> Iterator[Next]:
    if untouched.window is None:
        return
    hour = hour_text(untouched.window)
    match untouched.cause:
        case Cause.HOUR_NOT_ENDED:
            yield Next.of(f"run --hour {hour}", "when the hour is over; the schedule does it as well")
        case Cause.NO_RUN:
            yield Next.of(f"run --hour {hour}", "dispatch the hour")
        case Cause.RUN_NOT_ENDED:
            yield Next.of(f"show {untouched.run_id} --follow", "watch it until it ends")
        case Cause.RUN_FAILED:
            yield Next.of(f"show {untouched.run_id}", "see why it ended, and what is to be mended first")
            yield Next.of(f"resume {hour}", "go on where it ended; nothing is dispatched twice")
        case Cause.NOT_READ:
            yield Next.of(f"run --hour {hour}", "dispatch what is new; nothing is dispatched twice")
            yield Next.of(f"reconcile {hour}", "or find all that is missing: `redo` dispatches just that")


def view(story: Story) -> RenderableType:
    """The screen."""
    booked = {name: "missing" if value is None else value for name, value in story.booked.items()}
    facts = {"Booking": story.key, **booked}
    if story.hours:
        facts["Read by"] = " and ".join(f"the run of {hours_text(hour)}" for hour in story.hours)
    if story.fault:
        facts["Bad data"] = f"{story.fault}: a run sets it aside"
    if story.searched:
        facts["Looked in"] = ", ".join(hour_text(hour) for hour in story.searched)
    parts: list[RenderableType] = [Text(verdict(story)), Text(), facts_grid(facts, next_commands(story))]
    for task in story.tasks:
        parts += [Text(f"\nIn a task {met_text(task.met)}", style="bold"), facts_grid(dict(task_facts(task)))]
    for aside in story.set_aside:
        parts += [
            Text(f"\nSet aside {met_text(aside.met)}", style="bold"),
            facts_grid({"Reason": aside.reason, "File": aside.file}),
        ]
    for staged in story.staged:
        parts += [
            Text(f"\nStaged {met_text(staged.met)}, and in no task until its group is merged", style="bold"),
            facts_grid({"Object": staged.object}),
        ]
    return Group(*parts)


def met_text(met: Met) -> str:
    """Where a run met it; the first lane is the only one where a run is not laid out in lanes."""
    page = f"lane {met.lane}, page {met.page}" if met.lane else f"page {met.page}"
    return f"by run {met.run_id}, {page}, as it was booked for {met.moment}"


def task_facts(it: InTask) -> Iterator[tuple[str, str]]:
    """What is known of a task that holds it."""
    task = it.task
    yield "Task", task.task_id
    yield "Route", f"{task.route.value} ({JOB_NAMES[task.route]})"
    yield "Orders", f"{len(task.versions):,}"
    yield "Object", it.object
    yield "Ledger", it.ledger
    yield "Message", message_text(it)
    yield "Grant", grant_text(it.grant, task.task_id)


def message_text(it: InTask) -> str:
    """Where the task's message is, as far as that is known."""
    if it.on_queue:
        return "on its queue"
    if it.dead_letter is not None:
        return f"a dead letter: {it.dead_letter.reason or 'why, the worker did not note'}"
    if not it.sent:
        return "not known to be sent: the run that goes on with this page sends it"
    if it.on_queue is None:
        at = f"by {moment_text(it.finished)} UTC" if it.finished else "by an attempt that failed behind it"
        return f"sent {at}; what became of it, only a consumer knows"
    return "sent, and no longer on its queue: a consumer has it"


def grant_text(grant: Grant | None, task_id: str) -> str:
    """What a worker made of it."""
    if grant is None:
        return "not known: this stack has no worker of its own"
    if grant.granted_at is not None:
        other = "" if grant.granted_for == task_id else f", for task {grant.granted_for}"
        return f"Granted at {grant.granted_at}{other}"
    if grant.finished_at is None:
        return "none yet: no worker has finished this task"
    outcomes = ", ".join(f"{count:,} {name}" for name, count in (grant.outcomes or {}).items())
    return f"none: a worker finished this task at {grant.finished_at}; its orders: {outcomes}"


def to_json(story: Story) -> dict[str, Any]:
    """The same for machines."""
    return {
        "Key": story.key,
        "State": story.state.value,
        "Says": verdict(story),
        "Booked": dict(story.booked),
        "BadData": story.fault,
        "Windows": [hour.start_text for hour in story.hours],
        "SearchedWindows": [hour.start_text for hour in story.searched],
        "Tasks": [task_json(task) for task in story.tasks],
        "SetAside": [aside_json(aside) for aside in story.set_aside],
        "Staged": [staged_json(staged) for staged in story.staged],
        "Untouched": [untouched_json(each) for each in story.untouched],
        "Next": [step.command for step in next_commands(story)],
    }


def met_json(met: Met) -> dict[str, Any]:
    """Where a run met it."""
    return {
        "RunId": met.run_id,
        "WindowStart": met.window.start_text,
        "Lane": met.lane,
        "Page": met.page,
        "BookedFor": met.moment,
    }


def task_json(it: InTask) -> dict[str, Any]:
    """A task that holds it."""
    grant = it.grant
    return {
        **met_json(it.met),
        "TaskId": it.task.task_id,
        "Route": it.task.route.value,
        "Orders": len(it.task.versions),
        "Object": it.object,
        "LedgerRow": it.ledger,
        "Sent": it.sent,
        "PageFinishedAt": it.finished and it.finished.isoformat(),
        "OnQueue": it.on_queue,
        "SkippedAs": it.skipped and it.skipped.value,
        "DeadLetter": it.dead_letter and {"Reason": it.dead_letter.reason},
        "Grant": grant
        and {
            "GrantedAt": grant.granted_at,
            "GrantedFor": grant.granted_for,
            "TaskFinishedAt": grant.finished_at,
            "Outcomes": None if grant.outcomes is None else dict(grant.outcomes),
        },
    }


def aside_json(aside: SetAside) -> dict[str, Any]:
    """A file that it was set aside in."""
    return {**met_json(aside.met), "Reason": aside.reason, "File": aside.file}


def staged_json(staged: Staged) -> dict[str, Any]:
    """An object that it was staged in."""
    return {**met_json(staged.met), "Object": staged.object}


def untouched_json(untouched: Untouched) -> dict[str, Any]:
    """Why an hour's runs did nothing with it."""
    return {
        "Cause": untouched.cause.value,
        "WindowStart": untouched.window and untouched.window.start_text,
        "RunId": untouched.run_id,
        "Outcome": untouched.outcome,
        "Says": reason(untouched),
    }
