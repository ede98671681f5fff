"""Compare: the tasks that each path would create of the same bookings, and where they differ from the full path's.

Source: docs/contract.md, "Compare".
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from functions.domain.booking import Booking, Group, RecordVersion, Route
from functions.domain.report import SAMPLES
from functions.domain.task import compose, object_pieces
from functions.domain.window import Instant, Window


class Difference(StrEnum):
    """The classes; each is a count of the output and of the report."""

    ONLY_IN_FULL = "OnlyInFull"
    """Record versions that the full path dispatches in that group and on that route, and the other does not."""
    ONLY_IN_OTHER = "OnlyInOther"
    """The other way round; a version that the other dispatches twice is one, too."""
    SPLIT = "Split"
    """Groups on a route that become several tasks."""
    ORDER_DIFFERS = "OrderDiffers"
    """Groups on a route whose orders, task after task as they are sent, do not come in the order of OrderTime."""
    BODY_DIFFERS = "BodyDiffers"
    """Tasks of the same group, route and record versions whose objects differ."""


class Sketch(NamedTuple):
    """What is compared of a task; it holds none of its documents."""

    task_id: str
    group: Group
    route: Route
    versions: Sequence[RecordVersion]
    order_times: Sequence[Instant]
    body: bytes
    """SHA-256 of its object."""


Parts: TypeAlias = Mapping[tuple[Group, Route], Sequence[Sketch]]
"""The tasks of each group on each route, in the order of sending."""


def sketched(bookings: Iterable[Booking], window: Window, bucket: str) -> Iterator[Sketch]:
    """The tasks that are composed of these bookings; `bucket` is the one that their objects would lie in."""
    composed = list(bookings)
    times = {booking.version: booking.order_time for booking in composed}
    for new in compose(composed, window):
        digest = hashlib.sha256()
        for piece in object_pieces(new, bucket):
            digest.update(piece)
        task = new.task
        versions = tuple(task.versions)
        order_times = tuple(times[version] for version in versions)
        yield Sketch(task.task_id, task.group, task.route, versions, order_times, digest.digest())


def parts_of(sketches: Iterable[Sketch]) -> Parts:
    """A path's tasks by group and route; they come in the order of sending."""
    parts: dict[tuple[Group, Route], list[Sketch]] = {}
    for sketch in sketches:
        parts.setdefault((sketch.group, sketch.route), []).append(sketch)
    return parts


def figures_of(parts: Parts) -> dict[str, int]:
    """How much a path would dispatch."""
    records: Counter[Group] = Counter()
    for (group, _), tasks in parts.items():
        records[group] += sum(len(task.versions) for task in tasks)
    return {
        "Tasks": sum(map(len, parts.values())),
        "Groups": len(records),
        "Records": records.total(),
        "LargestGroup": max(records.values(), default=0),
        "MostParts": max(map(len, parts.values()), default=0),
    }


@dataclass(slots=True)
class Differences:
    """What was found, by class: how often, and the record versions of the first."""

    found: Counter[Difference] = field(default_factory=Counter)
    samples: dict[Difference, list[RecordVersion]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """The count of each class, by its name."""
        return {kind.value: self.found[kind] for kind in Difference}

    def add(self, kind: Difference, records: Iterable[RecordVersion]) -> None:
        """Count one difference for each of the records."""
        samples = self.samples.setdefault(kind, [])
        for record in records:
            self.found[kind] += 1
            if len(samples) < SAMPLES:
                samples.append(record)


def compared(full: Parts, other: Parts) -> Differences:
    """Where the other path's tasks differ from the full path's."""
    differences = Differences()
    for place in dict.fromkeys((*full, *other)):
        whole, parts = full.get(place, ()), other.get(place, ())
        expected, given = _counted(whole), _counted(parts)
        differences.add(Difference.ONLY_IN_FULL, (expected - given).elements())
        differences.add(Difference.ONLY_IN_OTHER, (given - expected).elements())
        differences.add(Difference.SPLIT, [part.versions[0] for part in parts[1:2]])
        differences.add(Difference.ORDER_DIFFERS, _out_of_order(parts))
        bodies = {task.task_id: task.body for task in whole}
        differing = [part.versions[0] for part in parts if bodies.get(part.task_id, part.body) != part.body]
        differences.add(Difference.BODY_DIFFERS, differing)
    return differences


def _counted(tasks: Iterable[Sketch]) -> Counter[RecordVersion]:
    return Counter(version for task in tasks for version in task.versions)


def _out_of_order(tasks: Iterable[Sketch]) -> list[RecordVersion]:
    """The first record that is sent behind one of a later OrderTime, if there is any."""
    latest = None
    for task in tasks:
        for version, time in zip(task.versions, task.order_times, strict=True):
            if latest is not None and time < latest:
                return [version]
            latest = time
    return []
