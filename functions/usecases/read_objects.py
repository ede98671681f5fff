"""The second source of a reconcile: the keys of the window's task data."""

from collections.abc import Callable

from functions.domain.reconcile import Loop, Reconcile, Step, object_line
from functions.domain.run import field_of
from functions.domain.task import tasks_prefix
from functions.usecases.pieces import Lines, Read, Recorder
from functions.usecases.ports import TaskObjects


def read_objects(
    reconcile: Reconcile, loop: Loop, objects: TaskObjects, recorder: Recorder, has_time: Callable[[], bool]
) -> Loop:
    """List keys from where `loop` stands, until a piece is full."""
    return recorder.once(reconcile, Step.OBJECTS, loop, lambda: _read(reconcile, loop, objects, has_time))


def _read(reconcile: Reconcile, loop: Loop, objects: TaskObjects, has_time: Callable[[], bool]) -> Read:
    after = "" if loop.cursor is None else field_of(loop.cursor, "After", str)
    lines = Lines()
    for key in objects.keys(tasks_prefix(reconcile.window), after):
        lines.add([object_line(reconcile.window, key)])
        if lines.are_enough or not has_time():
            return Read(lines, {"Objects": lines.count}, {"After": key})
    return Read(lines, {"Objects": lines.count}, None)
