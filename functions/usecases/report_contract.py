"""What a report says, for whoever reads one: the redo, a tool, a person.

These models are the one source of the reports' JSON Schemas in `schemas/`.  Source: docs/contract.md, "Reconcile" and
"Compare".
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from functions.domain.report import SAMPLES
from functions.domain.window import Window

_STRICT: Final = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


def _checked_hour(text: str) -> str:
    Window.starting(text)
    return text


Count: TypeAlias = Annotated[int, Field(ge=0)]
Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Texts: TypeAlias = Annotated[list[str], Field(min_length=1)]
Hour: TypeAlias = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00Z$"), AfterValidator(_checked_hour)
]


class KeySample(BaseModel):
    """A record by its primary key alone: it has no booking date or no booking time that is a text."""

    model_config = _STRICT

    Key: Annotated[dict[str, int | str], Field(min_length=1, max_length=2)]
    """Attribute names and values; a number with a fraction is a text, binary is base64."""


class RecordSample(KeySample):
    """A record by its version, and nothing else of it."""

    BookingDateUTC: str
    BookingTimeUTC: str


class ObjectSample(BaseModel):
    """An object by its key in the bucket."""

    model_config = _STRICT

    Object: str


Records: TypeAlias = Annotated[list[RecordSample], Field(max_length=SAMPLES)]


class Report(BaseModel):
    """What both kinds of reports begin and end with."""

    model_config = _STRICT

    Stack: Annotated[str, Field(min_length=1)]
    """Whose it is."""
    ExecutionId: Annotated[str, Field(min_length=1)]
    TakenAt: str
    """When its execution started: the moment that ages are counted to."""
    WindowStart: Hour
    WindowEnd: Hour
    RecordVersion: Annotated[list[str], Field(min_length=3)]
    """The attributes that a record version is made of."""
    Sha256: Sha256
    """Of all other fields, as JSON in ASCII with sorted names and without blanks."""


# --- of a reconcile


class BookingsSource(BaseModel):
    """What the window's query returned."""

    model_config = _STRICT

    Bookings: Count
    Waiting: Count
    SetAside: Count
    """Those that wait, are bad data and stand in no plan."""


class TableSource(BaseModel):
    """The table behind the index."""

    model_config = _STRICT

    Audited: bool
    """Whether it was looked through for records that the index does not hold."""
    Scanned: Count
    """Its items that were looked at."""


class LedgerSource(BaseModel):
    """The window's own runs and plans, with tasks."""

    model_config = _STRICT

    Runs: Count
    OpenRuns: Count
    """Those that have not ended."""
    Plans: Count
    Tasks: Count
    DispatchedRecords: Count
    """The record versions in finished plans, each once."""


class TaskDataSource(BaseModel):
    """The bucket."""

    model_config = _STRICT

    Objects: Count
    """Under the window's prefix."""


class Sources(BaseModel):
    """What was compared, and how much there was of it."""

    model_config = _STRICT

    Bookings: BookingsSource
    Table: TableSource
    Ledger: LedgerSource
    TaskData: TaskDataSource


class DifferenceCounts(BaseModel):
    """How many differ, by class."""

    model_config = _STRICT

    MissingInLedger: Count
    MissingInBookings: Count
    ValueMismatch: Count
    Duplicate: Count
    OrphanObject: Count
    Unreachable: Count
    MissingHour: Annotated[int, Field(ge=0, le=1)]
    InDoubt: Count


class DifferenceSamples(BaseModel):
    """The first that differ, by class."""

    model_config = _STRICT

    MissingInLedger: Records
    MissingInBookings: Records
    ValueMismatch: Records
    Duplicate: Records
    OrphanObject: Annotated[list[ObjectSample], Field(max_length=SAMPLES)]
    Unreachable: Annotated[list[RecordSample | KeySample], Field(max_length=SAMPLES)]
    MissingHour: Annotated[list[RecordSample], Field(max_length=0)]
    InDoubt: Records


class MissingList(BaseModel):
    """Where every version of `MissingInLedger` stands, a JSON array `[key, date, time]` a line."""

    model_config = _STRICT

    Key: str
    Sha256: Sha256
    Count: Annotated[int, Field(ge=1)]
    """Its lines."""


class ReconcileSettings(BaseModel):
    """What the classes depend on."""

    model_config = _STRICT

    Shards: Count
    StillWaitingHours: Count
    SamplesOfEachClass: Count


class ReconcileReport(Report):
    """The report of a reconcile."""

    Sources: Sources
    Outcome: Literal["Clean", "Differences"]
    Counts: DifferenceCounts
    Samples: DifferenceSamples
    Missing: MissingList | None
    """None where nothing is missing in the ledger."""
    Covered: Texts
    NotCovered: Texts
    Settings: ReconcileSettings


# --- of a comparison


class Coverage(BaseModel):
    """What was read of the window, once for all paths."""

    model_config = _STRICT

    Pages: Count
    Evaluated: Count
    Waiting: Count
    SetAside: Count


class PathCounts(BaseModel):
    """How many differ from the full path, by class."""

    model_config = _STRICT

    OnlyInFull: Count
    OnlyInOther: Count
    Split: Count
    OrderDiffers: Count
    BodyDiffers: Count


class PathSamples(BaseModel):
    """The first that differ from the full path, by class."""

    model_config = _STRICT

    OnlyInFull: Records
    OnlyInOther: Records
    Split: Records
    OrderDiffers: Records
    BodyDiffers: Records


class SamplesByPath(BaseModel):
    """Of each path that goes by page."""

    model_config = _STRICT

    Paged: PathSamples
    Grouped: PathSamples


class Figures(BaseModel):
    """What a path would dispatch."""

    model_config = _STRICT

    Tasks: Count
    Groups: Count
    Records: Count
    LargestGroup: Count
    """Its records."""
    MostParts: Count
    """The tasks of the group on a route that has most."""


class ComparedFigures(Figures):
    """What a path by page would dispatch, held against the full one."""

    Differences: PathCounts


class Check(BaseModel):
    """A figure of the gate, and what it may be."""

    model_config = _STRICT

    Name: str
    Figure: int | float
    Threshold: str
    Passed: bool


class Gate(BaseModel):
    """Whether the evidence is enough to turn pagination on."""

    model_config = _STRICT

    Outcome: Literal["Passed", "Failed"]
    Checks: Annotated[list[Check], Field(min_length=1)]
    StopConditions: Texts
    WayBack: str
    Owner: str
    """Empty, and to be filled in on a copy."""


class CompareSettings(BaseModel):
    """What the pages depend on."""

    model_config = _STRICT

    PageSize: Count
    Slices: Count
    Shards: Count
    SetAsideLimit: Count
    SamplesOfEachClass: Count


class CompareReport(Report):
    """The report of a comparison."""

    Sources: Texts
    Coverage: Coverage
    KnownGaps: Texts
    Outcome: Literal["Equal", "Differences"]
    Full: Figures
    Paged: ComparedFigures
    Grouped: ComparedFigures
    Samples: SamplesByPath
    Gate: Gate
    Settings: CompareSettings
