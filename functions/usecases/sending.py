"""From a decided plan to a finished one; from composed tasks to a decided plan."""

from collections.abc import Sequence

from functions.domain.booking import BadRecord
from functions.domain.budget import BATCH_SECONDS
from functions.domain.errors import LeaseLost, TooManyBadRecords
from functions.domain.plan import Plan
from functions.domain.run import Counts, Run
from functions.domain.task import NewTask
from functions.usecases.ports import Dispatch, Lease


def decide(dispatch: Dispatch, lease: Lease, plan: Plan, new: Sequence[NewTask]) -> None:
    """Upload the new tasks' objects, then write the plan: a plan implies that its objects exist.

    If the process dies before the plan is written, nothing was sent and the next attempt composes anew.

    Raises:
        LeaseLost: see `Ledger.create_plan`.
    """
    dispatch.task_data.upload(new)
    dispatch.ledger.create_plan(lease, plan)


def carry_out(dispatch: Dispatch, lease: Lease, plan: Plan) -> Plan:
    """Send the plan's tasks, then mark it finished; the plan as finished.

    If the process dies between, the next attempt sends the same tasks again with the same ids.

    Raises:
        LeaseLost: the lease ran out before a batch, or was taken over.
    """

    def lease_has_time() -> None:
        if dispatch.clock() + BATCH_SECONDS >= lease.held_until:
            raise LeaseLost("the lease ends before another batch could be sent")

    dispatch.task_queues.send(plan.tasks, lease_has_time)
    return dispatch.ledger.finish_plan(lease, plan)


def set_aside(dispatch: Dispatch, run: Run, page: int, bad: Sequence[BadRecord], totals: Counts) -> None:
    """Write the bad records with their reasons, then hold the run to its limit.

    Raises:
        TooManyBadRecords: the run has set aside more than its limit; nothing of this page was planned or sent.
    """
    if bad and not run.dry_run:
        dispatch.task_data.set_aside(run, page, bad)
    if totals.set_aside + len(bad) > run.set_aside_limit:
        raise TooManyBadRecords(f"{totals.set_aside + len(bad)} records set aside, limit {run.set_aside_limit}")
