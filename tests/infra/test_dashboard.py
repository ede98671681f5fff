"""What the dashboard shows: the questions in their order, and no metric that nothing emits."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from aws_lambda_powertools import Metrics

from functions.domain.errors import ConfigurationError
from functions.domain.reconcile import Difference
from functions.domain.run import Path, Progress
from functions.handlers import observed
from tests.infra.template import StackTemplate
from tests.unit.fakes import a_run

QUESTIONS: Final = [
    "Does anything need a person?",
    "Is it running?",
    "Is it late?",
    "Is anything set aside, missing, or in a dead-letter queue?",
    "How long does an hour take, against the hour it has?",
    "How much goes through?",
    "Does AWS push back?",
    "Do the functions have room?",
    "Do the workers keep up?",
]
WIDTH: Final = 24
MAX_METRICS: Final = 2500
"""Of one dashboard, by CloudWatch's quotas."""
EMITTED_BY_AWS: Final = {
    "AWS/States": (
        {"StateMachineArn"},
        {
            "ExecutionsStarted",
            "ExecutionsSucceeded",
            "ExecutionsFailed",
            "ExecutionsTimedOut",
            "ExecutionsAborted",
            "ExecutionTime",
        },
    ),
    "AWS/SQS": (
        {"QueueName"},
        {
            "ApproximateAgeOfOldestMessage",
            "ApproximateNumberOfMessagesVisible",
            "ApproximateNumberOfMessagesNotVisible",
            "NumberOfMessagesDeleted",
        },
    ),
    "AWS/Lambda": ({"FunctionName"}, {"Duration", "Errors", "Throttles"}),
}
"""By namespace: its dimension, and its metrics as the services' documents name them."""
DYNAMODB: Final = {
    frozenset({"TableName"}): {"ReadThrottleEvents", "WriteThrottleEvents", "TransactionConflict"},
    frozenset({"TableName", "GlobalSecondaryIndexName"}): {"ReadThrottleEvents"},
}


class Shown(NamedTuple):
    """A metric of a graph."""

    namespace: str
    name: str
    dimensions: dict[str, str]
    statistic: str
    title: str


class Body(NamedTuple):
    """The widgets of a dashboard, from top to bottom."""

    widgets: list[dict[str, Any]]

    @classmethod
    def of(cls, template: StackTemplate) -> "Body":
        [described] = template.properties("AWS::CloudWatch::Dashboard").values()
        return cls(json.loads(described["DashboardBody"])["widgets"])

    def properties(self, kind: str) -> list[dict[str, Any]]:
        return [widget["properties"] for widget in self.widgets if widget["type"] == kind]

    def metrics(self) -> Iterator[Shown]:
        for graph in self.properties("metric"):
            for *words, last in graph["metrics"]:
                if words:  # an expression stands alone
                    namespace, name, *pairs = words
                    dimensions = dict(zip(pairs[::2], pairs[1::2], strict=True))
                    yield Shown(namespace, name, dimensions, last["stat"], graph["title"])


@pytest.fixture(scope="module", params=["Local", "Sandbox", "Production"])
def template(request: pytest.FixtureRequest, templates: dict[str, StackTemplate]) -> StackTemplate:
    return templates[request.param]


@pytest.fixture(scope="module")
def body(template: StackTemplate) -> Body:
    return Body.of(template)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    """What the functions count, by name with its dimensions: by a page, by a redo's failure, and by a reconcile."""
    monkeypatch.setattr(observed, "metrics", Metrics(namespace="BookingtimeDispatcher", service="dispatcher"))
    observed.report_progress(a_run(run_id="20260917T160110Z-run"), Progress(), Progress())
    observed.count_redo_failure({"Run": a_run(path=Path.REDO).to_state()}, ConfigurationError())
    found: dict[str, set[str]] = {kind.value: {"service"} for kind in Difference}
    for line in capsys.readouterr().out.splitlines():
        for declared in json.loads(line).get("_aws", {}).get("CloudWatchMetrics", ()):
            [dimensions] = declared["Dimensions"]
            found |= {metric["Name"]: set(dimensions) for metric in declared["Metrics"]}
    return found


def test_it_has_the_name_of_its_stack(sandbox: StackTemplate) -> None:
    [described] = sandbox.properties("AWS::CloudWatch::Dashboard").values()
    assert described["DashboardName"] == "BookingtimeDispatcherSandbox"


def test_each_row_answers_one_question_the_most_urgent_first(body: Body) -> None:
    headings = [text["markdown"].splitlines()[0] for text in body.properties("text")]
    assert headings == [f"## {question}" for question in QUESTIONS]
    kinds = "".join(widget["type"][0] for widget in body.widgets)
    assert re.fullmatch(r"ta(t[ml]+)+", kinds), "a heading, then what answers it; the alarms first"


def test_the_rows_fill_the_width_and_do_not_overlap(body: Body) -> None:
    taken = [
        (x, y)
        for widget in body.widgets
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    ]
    height = max(y for _, y in taken) + 1
    assert sorted(taken) == [(x, y) for x in range(WIDTH) for y in range(height)]


def test_the_state_of_every_alarm_stands_at_the_top(template: StackTemplate, body: Body) -> None:
    [status] = body.properties("alarm")
    assert sorted(status["alarms"]) == sorted(f"<{name}.Arn>" for name in template.resources("AWS::CloudWatch::Alarm"))


def test_every_metric_is_one_that_the_functions_or_the_stack_s_resources_emit(
    template: StackTemplate, body: Body, emitted: dict[str, set[str]]
) -> None:
    own = {"<StorageBookings>", "<StorageLedger>", "PlatformBookings", *(f"<{name}>" for name in _names(template))}
    for metric in body.metrics():
        names = set(metric.dimensions)
        if metric.namespace == "BookingtimeDispatcher":
            assert metric.dimensions == {"service": "dispatcher"}
            assert emitted[metric.name] == names
        elif metric.namespace == "AWS/DynamoDB":
            assert metric.name in DYNAMODB[frozenset(names)]
            assert metric.dimensions["TableName"] in own
            assert metric.dimensions.get("GlobalSecondaryIndexName") in {None, template.outputs()["BookingIndexName"]}
        else:
            dimensions, known = EMITTED_BY_AWS[metric.namespace]
            assert (names, metric.name in known) == (dimensions, True), metric
            assert set(metric.dimensions.values()) <= own, metric


def test_everything_that_the_functions_count_is_shown(body: Body, emitted: dict[str, set[str]]) -> None:
    shown = {metric.name for metric in body.metrics() if metric.namespace == "BookingtimeDispatcher"}
    assert shown == emitted.keys() - {"RedoFailed"}, "a failed redo is an alarm, and no line to look at"


def test_the_index_that_is_read_is_looked_at_also_where_its_table_is_the_platform_s(production: StackTemplate) -> None:
    [index] = [each for each in Body.of(production).metrics() if "GlobalSecondaryIndexName" in each.dimensions]
    assert index.dimensions == {"TableName": "PlatformBookings", "GlobalSecondaryIndexName": "by-booking-time"}


def test_times_are_the_longest_and_counts_are_sums(body: Body) -> None:
    times = {"RunSeconds", "ExecutionTime", "Duration", "ApproximateAgeOfOldestMessage"}
    levels = {"ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"}
    for metric in body.metrics():
        assert metric.statistic == ("Maximum" if metric.name in times | levels else "Sum"), metric


def test_an_hour_is_held_against_the_sixty_minutes_that_it_has(body: Body) -> None:
    graphs = {graph["title"]: graph for graph in body.properties("metric")}
    for title, divisor in (
        ("Runs at work, minutes since their start", 60),
        ("Executions that ended, minutes they took", 60_000),
    ):
        lines = {line["label"]: line["value"] for line in graphs[title]["annotations"]["horizontal"]}
        assert lines["the hour is over"] == 60
        assert lines.get("alarm") in {None, 50}
        expressions = [last["expression"] for *_, last in graphs[title]["metrics"] if "expression" in last]
        assert expressions
        assert all(expression.endswith(f" / {divisor}") for expression in expressions)


def test_memory_is_read_from_the_logs_of_the_functions_that_hold_a_page(body: Body) -> None:
    [memory] = body.properties("log")
    groups = re.findall(r"SOURCE '<(\w+)>'", memory["query"])
    assert groups == [
        f"Functions{name}Log"
        for name in ("DispatchPage", "DispatchWindow", "LayOutLanes", "StagePage", "FoldPages", "MergeBucket")
    ]
    assert "@maxMemoryUsed / @memorySize" in memory["query"]


def test_nothing_is_searched_for_and_no_other_account_or_region_is_asked(body: Body) -> None:
    text = json.dumps(body.widgets)
    assert "SEARCH(" not in text
    assert "accountId" not in text
    assert {properties["region"] for kind in ("metric", "log") for properties in body.properties(kind)} == {
        "<AWS::Region>"
    }


def test_it_stays_far_from_the_quotas(template: StackTemplate, body: Body) -> None:
    assert sum(1 for _ in body.metrics()) < MAX_METRICS / 10
    assert len(template.document["Resources"]) < 500 / 2
    assert len(json.dumps(template.document)) < 1_000_000 / 2


def _names(template: StackTemplate) -> set[str]:
    machines = template.resources("AWS::StepFunctions::StateMachine")
    queues = template.resources("AWS::SQS::Queue")
    return {*machines, *template.resources("AWS::Lambda::Function"), *(f"{name}.QueueName" for name in queues)}
