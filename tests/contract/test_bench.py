"""The benchmark runs from end to end, and writes what others read; how fast anything is, it may say to itself."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from benchmarks import bench, memory
from benchmarks.bench import known_layouts, main
from benchmarks.figures import COST_GOALS, LAYOUTS
from benchmarks.memory import OBJECT
from benchmarks.share import Share
from benchmarks.stub_aws import REQUESTS, Stub, running

GOALS = {
    **{f"page handler CPU / bare, same calls and threads, {layout}": 1.15 for layout in LAYOUTS},
    "page CPU, object, tuned / default boto3 pool": 0.80,
    "wall / latency bound at 2 ms, object, 16 threads": 1.30,
    "wall / latency bound at 2 ms, packed, 8 threads": 1.30,
    "wall, packed / object": 0.30,
    "wall, object / naive": 0.05,
    "Query CPU / default client.query": 0.25,
    **{f"peak RSS, 3,000 bookings / 2,000, paged, {layout}": 1.05 for layout in LAYOUTS},
    "start-up CPU of the page function / bare boto3 with three clients": 1.25,
    **{f"modelled cost per million records, {layout}, US dollars": most for layout, most in COST_GOALS.items()},
}
OF_LEDGER = {
    "leases and plans, first run, {}: calls a page": 6,
    "leases and plans, first run, {}: US dollars per million records": 0.06,
}
ABSENT = ("not built", "no bundle", "none of them")
BUSY = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"


def test_a_run_measures_every_goal_and_writes_figures_table_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left out is what has tests of its own: staging and merging an hour, and reconciling one."""
    monkeypatch.setattr(bench.Bench, "whole_paths", lambda _: [])
    monkeypatch.setattr(bench, "FULL", bench.QUICK)
    code = main(["--results", str(tmp_path)])
    figures: list[dict[str, Any]] = json.loads((tmp_path / "latest.json").read_text("utf-8"))["figures"]

    assert code == any(figure["met"] is False for figure in figures)
    assert all(set(figure) == {"name", "value", "goal", "met", "note"} for figure in figures)
    assert len({figure["name"] for figure in figures}) == len(figures)
    wanted = GOALS | {name.format(layout): most for layout in known_layouts() for name, most in OF_LEDGER.items()}
    assert {figure["name"]: float(figure["goal"].removeprefix("<= ")) for figure in figures if figure["goal"]} == wanted
    for figure in figures:
        assert (figure["goal"] is None) == (figure["met"] is None)
        assert (figure["value"] is None) == figure["note"].startswith(ABSENT), figure
        assert figure["met"] is not False or figure["note"]

    values = {figure["name"]: figure["value"] for figure in figures}
    assert values[f"requests of a page: {OBJECT}"] > 8
    assert values["leases and plans, first run, object: calls a page"] == 4

    assert all(values[f"memory: wall of a page, ms: {layout}, 1,024 MB"] > 0 for layout in LAYOUTS)

    table = (tmp_path / "latest.txt").read_text("utf-8")
    assert all(figure["name"] in table for figure in figures)
    for name in ("page.svg", "cost.svg"):
        assert (tmp_path / name).read_text("utf-8").rstrip().endswith("</svg>")


def test_a_process_gets_the_share_of_a_processor_that_it_is_given() -> None:
    share = Share(0.4)
    assert not memory.fresh_python("-c", BUSY, during=share.given_to).returncode
    assert share.got == pytest.approx(0.4, rel=0.2)


def test_a_process_that_is_held_ends_with_whoever_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROCESS_SECONDS", 0.2)
    begun: list[subprocess.Popen[str]] = []

    @contextmanager
    def held(process: subprocess.Popen[str]) -> Iterator[None]:
        begun.append(process)
        with Share(0.01).given_to(process):
            yield

    with pytest.raises(subprocess.TimeoutExpired):
        memory.fresh_python("-c", "while True: pass", during=held)
    assert [process.returncode for process in begun] == [-signal.SIGKILL]


def test_the_stub_answers_after_its_latency_and_counts_what_it_was_asked(tmp_path: Path) -> None:
    with running(tmp_path) as stub:
        stub.set(0.01, 100)
        stub.take()
        assert stub.seconds_of_a_request() >= 0.01
        counts = stub.take()
        assert counts.requests == {"PutObject": REQUESTS + 1}
        assert counts.most_at_once == 1


@pytest.mark.parametrize("settings", [{}, {"request_checksum_calculation": "when_required"}], ids=["trailer", "none"])
def test_the_stub_understands_what_any_client_sends(tmp_path: Path, settings: dict[str, Any]) -> None:
    """boto3's own way is a body in chunks, with a checksum behind them."""
    with running(tmp_path) as stub:
        stub.set(0, 100)
        stub.take()
        s3, dynamodb = (_client(service, stub, settings) for service in ("s3", "dynamodb"))
        for body in (b"", b"one", b"x" * 100_000):
            s3.put_object(Bucket="bucket", Key="a/key", Body=body)
        query: dict[str, Any] = {"TableName": "table", "IndexName": "index", "KeyConditionExpression": "k", "Limit": 60}
        page = dynamodb.query(**query)
        rest = dynamodb.query(**query, ExclusiveStartKey=page["LastEvaluatedKey"])
        assert (len(page["Items"]), len(rest["Items"])) == (60, 40)
        assert "LastEvaluatedKey" not in rest
        counts = stub.take()
        assert counts.requests == {"PutObject": 3, "Query": 2}
        assert counts.connections == 2  # whose bodies were read to their ends, so each served all its requests
        for each in (s3, dynamodb):
            each.close()


def _client(service: str, stub: Stub, settings: dict[str, Any]) -> Any:
    create: Callable[..., Any] = boto3.client
    return create(
        service,
        endpoint_url=stub.endpoint,
        verify=stub.trusted,
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(**settings),
    )
