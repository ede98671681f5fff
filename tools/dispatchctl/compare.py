"""What paging would change for one hour, before it is turned on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from functions.domain.compare_report import PASSED
from functions.domain.flags import MAX_PAGE_SIZE
from functions.domain.lane import MAX_SLICES
from functions.domain.window import Window
from tools.application import Application
from tools.dispatchctl.machines import plain_table, started, waited
from tools.dispatchctl.outcome import Next, facts_grid, hours_text, parameter_line, where
from tools.dispatchctl.reconcile import moment_of, sample_text
from tools.dispatchctl.shell import AsJson, ExitCode, app, application_of, show
from tools.dispatchctl.units import NONE, count_text, seconds_text, some
from tools.runs.machines import Machine
from tools.runs.records import hour_of, hour_text
from tools.runs.reports import Place, read_report

PATHS: Final = ("Full", "Paged", "Grouped")
FIGURES: Final = {
    "Tasks": "Tasks",
    "Groups": "Groups",
    "Records": "Records",
    "LargestGroup": "Records of the largest group",
    "MostParts": "Tasks of the group that has most",
}
DIFFERENCES: Final = {
    "Split": "Groups that become several tasks",
    "OrderDiffers": "Groups out of the order of OrderTime",
    "OnlyInFull": "Records only in full",
    "OnlyInOther": "Records only in this path",
    "BodyDiffers": "Tasks whose objects differ from full",
}
"""What is counted, and how that is told."""
SHOWN: Final = 5
"""So many of the groups that are split are shown, by a record of each; the report holds more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a comparison of one hour came to."""

    window: Window
    execution: str
    seconds: float
    output: Mapping[str, Any]
    report: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every check of the gate has passed."""
        return bool(self.output["Gate"] == PASSED)

    @property
    def place(self) -> Place:
        """Where the report lies."""
        return Place.of(self.output["Report"])


@app.command()
def compare(
    context: typer.Context,
    hour: Annotated[str, typer.Argument(metavar="HOUR", help="A busy hour that has ended, such as 2026-09-17T15.")],
    *,
    page_size: Annotated[
        int | None, typer.Option(min=1, max=MAX_PAGE_SIZE, help="Bookings on a page at most; the deployed one.")
    ] = None,
    slices: Annotated[
        int | None, typer.Option(min=1, max=MAX_SLICES, help="Parts of the hour, read side by side.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what paging would change for an hour: the gate to pass before it is turned on. Nothing is dispatched.

    Exit code 4: the gate was not passed.
    """
    application, window = application_of(context), hour_of(hour)
    given = {**({"PageSize": page_size} if page_size else {}), **({"Slices": slices} if slices else {})}
    execution = started(application, Machine.COMPARE, window, given)
    ended = waited(application, execution, f"The comparison of {hour_text(window)}")
    report = read_report(application, Place.of(ended.detail["Report"]))
    done = Compared(window=window, execution=execution, seconds=ended.seconds, output=ended.detail, report=report)
    show(to_json(done), lambda: view(application, done), as_json=as_json)
    if not done.passed:
        raise typer.Exit(ExitCode.FINDINGS)


def sentence(done: Compared) -> str:
    """What it came to."""
    hour, paged = hours_text(done.window), done.output["Paged"]["Differences"]
    gate = "passed" if done.passed else "was NOT passed"
    if not any(paged.values()):
        return f"The gate {gate}: with pages, {hour} gives the same tasks as the full path."
    return (
        f"The gate {gate}: with pages, {some(paged['Split'], 'group')} of {hour} would be split and"
        f" {count_text(paged['OrderDiffers'])} come in another order."
    )


def view(application: Application, done: Compared) -> RenderableType:
    """The screen."""
    covered, settings = done.report["Coverage"], done.report["Settings"]
    facts = {
        "Gate": "passed" if done.passed else "NOT PASSED",
        "Outcome": done.output["Outcome"],
        "Read": f"{some(covered['Evaluated'], 'booking')} on {some(covered['Pages'], 'page')}, once for all paths",
        "Settings": (
            f"{count_text(settings['PageSize'])} bookings a page, {some(settings['Slices'], 'slice')},"
            f" {settings['Shards'] or 'no'} shards"
        ),
        "Took": seconds_text(done.seconds),
        "Report": done.place.url,
        "Where": where(application, done.execution),
    }
    parts: list[RenderableType] = [Text(sentence(done)), Text(), facts_grid(facts, next_commands(application, done))]
    parts += [Text("\nThe gate", style="bold"), gate_table(done.report["Gate"]["Checks"])]
    parts += [Text("\nThe paths", style="bold"), paths_table(done.output)]
    split = done.report["Samples"]["Paged"]["Split"]
    if split:
        parts += [Text(f"\nSplit by pages, by a record of each group ({_of(split)})", style="bold"), split_table(split)]
    stops, back = done.report["Gate"]["StopConditions"], done.report["Gate"]["WayBack"]
    parts += [Text("\nStop if", style="bold"), *(Text(f"- {each}") for each in stops)]
    parts += [Text("\nThe way back", style="bold"), Text(back)]
    return Group(*parts)


def next_commands(application: Application, done: Compared) -> Iterator[Next]:
    """How paging is turned on, where the gate lets it."""
    if not done.passed:
        return
    turned_on = parameter_line(application, "PaginationEnabledParameter", "true")
    yield Next(command=turned_on, why="turn paging on, from the next run")
    yield Next.of("reconcile", "after each of the first hours")


def gate_table(checks: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The gate's checks."""
    table = plain_table("Check", "Figure", "Threshold", "Passed", numbers=("Figure",))
    for check in checks:
        figure = check["Figure"]
        text = count_text(figure) if isinstance(figure, int) else f"{figure:.2%}"
        passed = "yes" if check["Passed"] else "NO"
        table.add_row(check["Name"], text, check["Threshold"], passed, style="" if check["Passed"] else "bold red")
    return table


def paths_table(output: Mapping[str, Any]) -> RenderableType:
    """The three paths' figures side by side."""
    table = plain_table("", *PATHS, numbers=PATHS)
    for name, title in FIGURES.items():
        table.add_row(title, *(count_text(output[path][name]) for path in PATHS))
    table.add_section()
    for name, title in DIFFERENCES.items():
        paths = (output[path].get("Differences") for path in PATHS)
        table.add_row(title, *(NONE if differs is None else count_text(differs[name]) for differs in paths))
    return table


def split_table(split: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Some of the groups that pages split."""
    table = plain_table("Record", "Booked for")
    for sample in split[:SHOWN]:
        table.add_row(Text(sample_text(sample)), moment_of(sample))
    return table


def _of(samples: Sequence[Any]) -> str:
    return f"{min(SHOWN, len(samples)):,}" + (f" of the report's {len(samples):,}" if len(samples) > SHOWN else "")


def to_json(done: Compared) -> dict[str, Any]:
    """The same for machines: the output, and of the report what stands on the screen."""
    return {
        "Execution": done.execution,
        **done.output,
        "DurationSeconds": round(done.seconds, 3),
        "Coverage": done.report["Coverage"],
        "Checks": done.report["Gate"]["Checks"],
        "Samples": done.report["Samples"],
        "Settings": done.report["Settings"],
    }
