"""What the tasks that do a lane's pages have in common: `{"Run", "Others", "Progress"}` to the next `Progress`."""

from collections.abc import Callable
from typing import Any, TypeAlias

from functions.domain.run import Others, Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, report_progress
from functions.usecases.ports import Dispatch

PageTask: TypeAlias = Callable[[Run, Progress, Others, Dispatch, float], Progress]


def do_page(event: dict[str, Any], context: Any, task: PageTask) -> dict[str, Any]:
    """Do what the state names next, and return where it goes on; `HandsOver` where another execution is to do so."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    others, deadline = Others.from_state(event["Others"]), deadline_of(context)
    following = task(run, progress, others, wiring.dispatch(), deadline)
    report_progress(run, progress, following)
    return {**following.to_state(), "HandsOver": following.hands_over(run.page_budget)}
