"""One attempt at a page: from composed tasks to a decided plan, and from a decided plan to a finished one."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from functions.domain.booking import BadRecord
from functions.domain.budget import CALL_SECONDS
from functions.domain.errors import DispatcherError, LeaseLost, TooManyBadRecords, TransientError
from functions.domain.plan import Plan
from functions.domain.run import Progress, Run
from functions.domain.task import NewTask
from functions.usecases.ports import Dispatch

CONFIRMED_SECONDS: Final = 2
"""So long an attempt works on without a look whether it was superseded; one that ends sooner never asks."""


class Attempt:
    """One invocation at work under its lease; `deadline` (epoch seconds) is when Lambda will end it."""

    def __init__(self, dispatch: Dispatch, run: Run, deadline: float, lane: int = 0) -> None:
        """Renew the run's leases and supersede the attempt before in this lane.

        Raises:
            LeaseLost: the run no longer holds its window.
        """
        self.dispatch = dispatch
        self.lease = dispatch.ledger.renew(run, lane)
        self._deadline = deadline
        self._confirmed = dispatch.clock()

    def check(self) -> None:
        """Called before each upload and each batch: is there time for another call, and is this attempt still the one?

        Raises:
            LeaseLost: the lease ends before another call could, or a later attempt has begun.
            TransientError: the function's time ends first; the retry goes on from what is planned and noted.
        """
        now = self.dispatch.clock()
        if now + CALL_SECONDS >= self.lease.held_until:
            raise LeaseLost("the lease ends before another call could")
        if now + CALL_SECONDS >= self._deadline:
            raise TransientError("the function's time ends before another call could")
        if now - self._confirmed > CONFIRMED_SECONDS:
            self._confirmed = now  # before the question, so that of all threads one asks
            self.dispatch.ledger.confirm(self.lease)

    def decide(self, plan: Plan, new: Sequence[NewTask]) -> Plan:
        """Upload the new tasks' bodies, then write the plan that says where they lie, and return it.

        A plan implies that its tasks' bodies exist.
        If the process dies before the plan is written, nothing was sent and the next attempt composes anew.

        Raises:
            LeaseLost: see `Ledger.draft_plan`.
        """
        with self.dispatch.task_data.uploading(new, self.check) as placed:
            plan = plan.placing(placed)
            create = self.dispatch.ledger.draft_plan(self.lease, plan)
        self.check()
        create()
        return plan

    def carry_out(self, plan: Plan) -> Plan:
        """Send what the plan has left to send, then mark it finished; return it so.

        A failure half-way notes what was sent, so that the next attempt sends the rest only.  If the process dies, the
        next attempt sends the plan's tasks again, with the same ids.

        Raises:
            LeaseLost: the lease ran out before a batch, or was taken over.
        """
        sent: list[str] = []
        try:
            self.dispatch.task_queues.send(plan.unsent, self.check, sent.extend)
            self.check()
            return self.dispatch.ledger.finish_plan(self.lease, plan)
        except DispatcherError:
            self._note(replace(plan, sent=plan.sent.union(sent)))
            raise

    def _note(self, plan: Plan) -> None:
        """Note what was sent; without the note the next attempt repeats it, so a failure here changes nothing else."""
        if plan.sent:
            with suppress(DispatcherError):
                self.dispatch.ledger.note_sent(self.lease, plan)


def set_aside(dispatch: Dispatch, run: Run, progress: Progress, bad: Sequence[BadRecord]) -> None:
    """Write a page's bad records with their reasons, then hold the lane to the run's limit.

    Raises:
        TooManyBadRecords: more than the limit were set aside; nothing of this page was planned or sent.
    """
    if bad and not run.dry_run:
        dispatch.task_data.set_aside(run, progress, bad)
    hold_to_limit(run, progress.totals.set_aside + len(bad))


def hold_to_limit(run: Run, set_aside: int) -> None:
    """Refuse a run that has set aside more records than its limit allows.

    Raises:
        TooManyBadRecords: as named.
    """
    if set_aside > run.set_aside_limit:
        raise TooManyBadRecords(f"{set_aside} records set aside, limit {run.set_aside_limit}")
