"""`python -m tests.crash points`, `... worker` and `... soak`; `--only` runs again what they name as failed."""

import argparse
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from tests.crash import points, soak, worker
from tests.crash.forks import in_forks
from tests.crash.points import KINDS, PATHS, Case, Verdict
from tests.crash.soak import Outcome

COMMAND: Final = "python -m tests.crash"
BROKE_DOWN: Final = "it hung or broke down"


def crash_points(seed: int, doubles: int, only: str | None, *, exhaustive: bool) -> bool:
    """Run every crash point and print what came of it; whether all is well."""
    rows: dict[str, list[Verdict]] = defaultdict(list)
    with points.staged() as stage:
        if only:
            cases = [Case.named(only)]
        else:
            calls = {path: operations for path, operations in in_forks(stage.calls, PATHS) if operations}
            assert calls.keys() == PATHS.keys(), "the run in which nothing goes wrong goes wrong"
            print(", ".join(f"{path} path: {len(operations)} AWS calls" for path, operations in calls.items()))
            cases = [*points.single_faults(calls, exhaustive=exhaustive), *points.double_faults(calls, seed, doubles)]
        for case, verdict in in_forks(stage.judge, cases):
            judged = verdict or Verdict(0, 0, 0, (BROKE_DOWN,))
            rows["two faults" if len(case.points) > 1 else KINDS[case.points[0].fault]].append(judged)
            _tell(judged.violations, f"points --only {case}")
    print(f"\n{'kind of fault':<32}{'cases':>7}{'lost':>7}{'twice':>7}{'repeats':>9}{'worst':>7}{'failed':>8}")
    for kind, some in rows.items():
        counts = _sums(some)
        failed = sum(bool(verdict.violations) for verdict in some)
        print(f"{kind:<32}{counts[0]:>7}{counts[1]:>7}{counts[2]:>7}{counts[3]:>9}{counts[4]:>7}{failed:>8}")
    everything = [verdict for some in rows.values() for verdict in some]
    cases_, lost, twice, repeats, worst = _sums(everything)
    print(f"crash-test: {cases_} cases, {lost} lost, {twice} dispatched twice, {repeats} repeats (worst {worst})")
    return not any(verdict.violations for verdict in everything)


def worker_points(only: str | None) -> bool:
    """Run every crash point of the worker and print what came of it; whether all is well."""
    counted: Counter[str] = Counter()
    failed = worst = 0
    with worker.staged() as stage:
        if only:
            cases = [worker.Case.named(only)]
        else:
            (_, calls), *_ = in_forks(lambda _: stage.calls(), ["nothing goes wrong"])
            assert calls, "the batch in which nothing goes wrong goes wrong"
            print(f"a worker's batch: {len(calls)} AWS calls")
            cases = [*worker.cases(calls)]
        for case, verdict in in_forks(stage.judge, cases):
            judged = verdict or worker.Verdict(0, (BROKE_DOWN,))
            counted["two deaths" if len(case.events) > 1 else worker.KINDS[case.events[0][1]]] += 1
            failed += bool(judged.violations)
            worst = max(worst, judged.deliveries)
            _tell(judged.violations, f"worker --only {case}")
    for kind, count in counted.items():
        print(f"{kind:<32}{count:>7}")
    print(f"worker: {counted.total()} cases, {failed} failed, done after {worst} deliveries at the most")
    return not failed


def random_schedules(first: int, wanted: int) -> bool:
    """Follow the schedules of so many seeds and print what came of them; whether all is well."""
    outcomes: list[Outcome] = []
    with soak.staged() as judge:
        for seed, outcome in in_forks(judge, range(first, first + wanted)):
            judged = outcome or Outcome(0, 0, 0, 0, 0, (BROKE_DOWN,))
            outcomes.append(judged)
            _tell(judged.violations, f"soak --only {seed}")
    lost = sum(outcome.lost for outcome in outcomes)
    twice = sum(outcome.twice for outcome in outcomes)
    repeats = sum(outcome.repeats for outcome in outcomes)
    redone = sum(outcome.redone for outcome in outcomes)
    granted = sum(outcome.granted for outcome in outcomes)
    found = f"{lost} lost, {twice} dispatched twice, {repeats} repeats, {redone} redone, {granted} granted"
    print(f"soak: {len(outcomes)} schedules, {found}")
    return not any(outcome.violations for outcome in outcomes)


def _tell(violations: Sequence[str], again: str) -> None:
    if violations:
        print(f"FAILED: {COMMAND} {again}", *violations, sep="\n    ", flush=True)


def _sums(verdicts: Sequence[Verdict]) -> tuple[int, int, int, int, int]:
    """Cases, lost, twice, repeats, and the most repeats in one case."""
    return (
        len(verdicts),
        sum(verdict.lost for verdict in verdicts),
        sum(verdict.twice for verdict in verdicts),
        sum(verdict.repeats for verdict in verdicts),
        max((verdict.repeats for verdict in verdicts), default=0),
    )


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    crash = commands.add_parser("points", help="every AWS call of a run, with every fault")
    crash.add_argument("--seed", type=int, default=3, help="of the cases with two faults")
    crash.add_argument("--doubles", type=int, default=200, metavar="N", help="so many cases with two faults")
    crash.add_argument("--exhaustive", action="store_true", help="every fault at every call of every path")
    crash.add_argument("--only", metavar="CASE")
    of_worker = commands.add_parser("worker", help="every AWS call of a worker's batch, with every fault")
    of_worker.add_argument("--only", metavar="CASE")
    random = commands.add_parser("soak", help="random schedules")
    random.add_argument("--first", type=int, default=1, metavar="SEED")
    random.add_argument("--schedules", type=int, default=2000, metavar="N")
    random.add_argument("--only", type=int, metavar="SEED")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    started = time.monotonic()
    if given.command == "points":
        well = crash_points(given.seed, given.doubles, given.only, exhaustive=given.exhaustive)
    elif given.command == "worker":
        well = worker_points(given.only)
    elif given.only is not None:
        well = random_schedules(given.only, 1)
    else:
        well = random_schedules(given.first, given.schedules)
    print(f"{time.monotonic() - started:.0f} seconds", file=sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
