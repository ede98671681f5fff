"""A plan's tasks as the compressed body that the ledger stores beside the plan's row."""

import json
import zlib
from collections.abc import Sequence

from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.task import Task
from functions.domain.window import Window


def encode(tasks: Sequence[Task]) -> bytes:
    """Equal tasks give equal bytes."""
    rows = [
        [task.task_id, task.route.value, task.window.start_text, *task.group, *map(list, task.versions)]
        for task in tasks
    ]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"))


def decode(body: bytes) -> tuple[Task, ...]:
    """The inverse of `encode`."""
    return tuple(
        Task(
            task_id,
            Route(route),
            Group(shop, member, engine),
            Window.starting(window),
            tuple(RecordVersion(*version) for version in versions),
        )
        for task_id, route, window, shop, member, engine, *versions in json.loads(zlib.decompress(body))
    )
