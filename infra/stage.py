"""What one deployment differs in from another: read once from the CDK context, handed on as one argument."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from aws_cdk import RemovalPolicy

from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.lane import MAX_SHARDS
from functions.domain.pack import Layout
from functions.domain.run import DEFAULT_PAGE_BUDGET

LEAST_TASK_EXPIRY_DAYS: Final = 214
"""A planned task can be sent as long as its plan lives (200 days), and then waits up to 14 days in its queue."""

DEFAULT_LANE_CONCURRENCY: Final = 8
MAX_LANE_CONCURRENCY: Final = 40
"""So many iterations of a Map that is no distributed one run side by side."""
DEFAULT_STILL_WAITING_HOURS: Final = 24
MAX_STILL_WAITING_HOURS: Final = 2400
"""A hundred days: half as long as the ledger keeps plans."""
MAX_REDO_WITHOUT_APPROVAL: Final = 10
RUNBOOK: Final = "docs/operate.md"
"""Where it lies in the repository; under which address that is read, only its owner knows."""
MAX_PAGE_BUDGET: Final = 3000
"""At seven events a page they leave room for retries in an execution's history of 25,000."""


class SettingError(Exception):
    """A context setting is wrong; the message names it and says what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingBookings:
    """A bookings table that the platform owns: it is imported, never created or changed."""

    table_name: str
    index_name: str
    key_attributes: tuple[str, ...]
    """Partition key, then sort key if the table has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The settings of one deployment."""

    name: str
    bundle: Literal["local", "aws"]
    keeps_data: bool
    """What holds data outlives its stack, and the stack itself is protected from deletion."""
    empties_bucket: bool
    """The bucket is emptied so that deleting the stack can delete it.  Takes a custom resource."""
    runs_hourly: bool
    """The schedule is enabled; else it stands there disabled."""
    pagination_enabled: bool
    """First value of the parameter.  The default of the product is the full read."""
    works: bool = False
    """The reference worker is deployed.  It writes bookings, so it never is beside a table that the platform owns."""
    works_unasked: bool = False
    """It takes tasks as they come; else it stands there switched off, and tasks stay to be looked at."""
    traced: bool = False
    """Executions are traced by X-Ray."""
    task_expiry_days: int | None = None
    """Age at which a task's object is deleted; None keeps it."""
    existing_bookings: ExistingBookings | None = None
    """None creates a bookings table."""
    booking_date_attribute: str = DATE_ATTRIBUTE
    """The partition key of the bookings' index."""
    booking_shards: int = 0
    """So many partitions hold each date of the index; 0 where it is not sharded."""
    lane_concurrency: int = DEFAULT_LANE_CONCURRENCY
    """At most so many lanes of a run are worked on side by side."""
    page_budget: int = DEFAULT_PAGE_BUDGET
    """After so many pages the next execution goes on."""
    still_waiting_hours: int = DEFAULT_STILL_WAITING_HOURS
    """A record that waits so long after its dispatch is a difference of a reconcile."""
    redo_without_approval: int = 0
    """A redo of so many records needs no second person."""
    runbook_url: str = RUNBOOK
    """What the links of alarms begin with; each goes on with `#` and its alarm's name."""
    task_data_layout: Layout = Layout.OBJECT
    """How the bodies of new tasks are laid out."""

    @property
    def deploys_worker(self) -> bool:
        """Whether the reference worker is deployed: only beside a bookings table of the stack's own making."""
        return self.works and self.existing_bookings is None

    @property
    def removal_policy(self) -> RemovalPolicy:
        """What becomes of data and logs when the stack is deleted."""
        return RemovalPolicy.RETAIN if self.keeps_data else RemovalPolicy.DESTROY

    @staticmethod
    def from_context(setting: Callable[[str], Any]) -> "Stage":
        """Read every setting, each from `cdk.json` or from `-c name=value`, where all values are text.

        Raises:
            SettingError: a setting is unknown, mistyped or missing beside another.
        """
        name = setting("stage") or "Sandbox"
        if name not in STAGES:
            raise SettingError(f"stage: {name!r} is none of {', '.join(STAGES)}.")
        stage = replace(
            STAGES[name],
            traced=_flag("tracing", setting("tracing")),
            task_expiry_days=_days("taskExpiryDays", setting("taskExpiryDays")),
            existing_bookings=_existing_bookings(setting),
            booking_date_attribute=_name("bookingDateAttribute", setting, DATE_ATTRIBUTE),
            booking_shards=_number("bookingShards", setting, 0, range(MAX_SHARDS + 1)),
            lane_concurrency=_number(
                "laneConcurrency", setting, DEFAULT_LANE_CONCURRENCY, range(1, MAX_LANE_CONCURRENCY + 1)
            ),
            page_budget=_number("pageBudget", setting, DEFAULT_PAGE_BUDGET, range(1, MAX_PAGE_BUDGET + 1)),
            still_waiting_hours=_number(
                "stillWaitingHours", setting, DEFAULT_STILL_WAITING_HOURS, range(1, MAX_STILL_WAITING_HOURS + 1)
            ),
            redo_without_approval=_number("redoWithoutApproval", setting, 0, range(MAX_REDO_WITHOUT_APPROVAL + 1)),
            runbook_url=_name("runbookUrl", setting, RUNBOOK),
            task_data_layout=_layout("taskDataLayout", setting("taskDataLayout")),
        )
        if stage.keeps_data and stage.existing_bookings is None:
            # A table made here would stay empty, and every hour would be dispatched as "nothing to do".
            raise SettingError(f"bookingTableName: stage {name} dispatches the platform's own table; name it.")
        return stage


STAGES: Final = {
    stage.name: stage
    for stage in (
        Stage(
            name="Local",
            bundle="local",
            keeps_data=False,
            empties_bucket=False,  # the embedded AWS cannot run that resource, and deletes full buckets
            runs_hourly=False,  # a run that nobody started would disturb whoever is looking
            pagination_enabled=True,
            works=True,
        ),
        Stage(
            name="Sandbox",
            bundle="aws",
            keeps_data=False,
            empties_bucket=True,
            runs_hourly=True,
            pagination_enabled=True,
            works=True,
            works_unasked=True,
        ),
        Stage(
            name="Production",
            bundle="aws",
            keeps_data=True,
            empties_bucket=False,
            runs_hourly=True,
            pagination_enabled=False,
        ),
    )
}


def _existing_bookings(setting: Callable[[str], Any]) -> ExistingBookings | None:
    names = ("bookingTableName", "bookingIndexName", "bookingKeyAttributes")
    given = {name: value for name in names if (value := setting(name)) not in (None, "")}
    if not given:
        return None
    for name in names:
        if name not in given:
            raise SettingError(f"{name}: needed to import a table, as {', '.join(given)} is set.")
    return ExistingBookings(
        table_name=_text(names[0], given[names[0]]),
        index_name=_text(names[1], given[names[1]]),
        key_attributes=_key_attributes(names[2], given[names[2]]),
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{name}: {value!r} is no text.")
    return value


def _flag(name: str, value: object) -> bool:
    match value:
        case None | False | "false":
            return False
        case True | "true":
            return True
        case _:
            raise SettingError(f"{name}: {value!r} is neither true nor false.")


def _layout(name: str, value: Any) -> Layout:
    try:
        return Layout.OBJECT if value is None else Layout(value)
    except ValueError:
        raise SettingError(f"{name}: {value!r} is none of {', '.join(Layout)}.") from None


def _days(name: str, value: object) -> int | None:
    if value is None:
        return None
    days = _whole(value)
    if days is None or days < LEAST_TASK_EXPIRY_DAYS:
        raise SettingError(f"{name}: {value!r} is no whole number of days from {LEAST_TASK_EXPIRY_DAYS} on.")
    return days


def _name(name: str, setting: Callable[[str], Any], default: str) -> str:
    value = setting(name)
    if value is None:
        return default
    if not isinstance(value, str) or not value:
        raise SettingError(f"{name}: {value!r} is no name.")
    return value


def _number(name: str, setting: Callable[[str], Any], default: int, allowed: range) -> int:
    value = setting(name)
    if value is None:
        return default
    number = _whole(value)
    if number is None or number not in allowed:
        raise SettingError(f"{name}: {value!r} is no whole number from {allowed[0]} to {allowed[-1]}.")
    return number


def _whole(value: object) -> int | None:
    """A whole number, or the text of one."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _key_attributes(name: str, value: object) -> tuple[str, ...]:
    try:
        attributes = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        attributes = None
    match attributes:
        case [str(only)] if only:
            return (only,)
        case [str(first), str(second)] if first and second and first != second:
            return (first, second)
        case _:
            raise SettingError(f'{name}: {value!r} is no list of one or two names, such as ["RecordId"].')
