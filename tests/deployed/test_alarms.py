"""The deployed alarms: each goes off on its metric, and tells whoever is on call what to read.

The embedded AWS evaluates an alarm whenever metric data are put, by namespace and name: it heeds no dimension, makes no
metric of what functions print, and knows no metric math.  So the tests put what CloudWatch would have; what it does not
show, the tests of the template hold.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.deployed.application import Application, OnCall

STACK: Final = "BookingtimeDispatcherLocal"


@pytest.fixture
def alarms(application: Application) -> dict[str, dict[str, Any]]:
    """By their names in the runbook; none of them is going off."""
    client = application.client("cloudwatch")
    found = [
        alarm
        for page in client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=STACK)
        for alarm in page["MetricAlarms"]
    ]
    for alarm in found:
        client.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="A test begins.")
    return {alarm["AlarmDescription"].rpartition("#")[2]: alarm for alarm in found}


def put(application: Application, namespace: str, name: str, dimensions: list[dict[str, str]], value: float) -> None:
    application.client("cloudwatch").put_metric_data(
        Namespace=namespace, MetricData=[{"MetricName": name, "Dimensions": dimensions, "Value": value}]
    )


def going_off(application: Application, alarms: dict[str, dict[str, Any]]) -> set[str]:
    client, names = application.client("cloudwatch"), {alarm["AlarmName"]: name for name, alarm in alarms.items()}
    described = client.describe_alarms(AlarmNames=list(names), StateValue="ALARM", MaxRecords=100)["MetricAlarms"]
    return {names[alarm["AlarmName"]] for alarm in described}


def told_of(on_call: OnCall, alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """What the topic's subscriber was told of an alarm."""
    notices = (json.loads(told["Message"]) for told in on_call(alarm["AlarmName"]))
    return [notice for notice in notices if notice["NewStateValue"] == "ALARM"]


def printed(application: Application, module: str, since: float) -> Iterator[dict[str, Any]]:
    """The lines of a function's log that CloudWatch makes metrics of."""
    group = application.functions()[module]["LoggingConfig"]["LogGroup"]
    pages = application.client("logs").get_paginator("filter_log_events")
    for page in pages.paginate(logGroupName=group, startTime=int(1000 * since)):
        for event in page["events"]:
            if '"_aws"' in event["message"]:
                yield json.loads(event["message"])


def put_as_cloudwatch_would(application: Application, line: dict[str, Any]) -> None:
    for declared in line["_aws"]["CloudWatchMetrics"]:
        [keys] = declared["Dimensions"]
        dimensions = [{"Name": key, "Value": line[key]} for key in keys]
        for metric in declared["Metrics"]:
            [value] = line[metric["Name"]]
            put(application, declared["Namespace"], metric["Name"], dimensions, value)


def test_each_alarm_goes_off_at_its_threshold_and_not_below_and_its_notice_names_the_runbook(
    application: Application, alarms: dict[str, dict[str, Any]], on_call: OnCall
) -> None:
    of_metric = defaultdict(set)
    for name, alarm in alarms.items():
        of_metric[alarm["Namespace"], alarm["MetricName"], alarm["Threshold"]].add(name)
    assert (len(alarms), len(of_metric)) == (21, 12)

    gone_off: set[str] = set()
    for (namespace, metric, threshold), names in of_metric.items():
        for below, value in ((1, threshold - 1), (0, threshold)):
            put(application, namespace, metric, alarms[min(names)]["Dimensions"], value)
            gone_off |= set() if below else names
            assert going_off(application, alarms) == gone_off

    assert gone_off == alarms.keys()
    for name, alarm in alarms.items():
        [notice] = told_of(on_call, alarm)
        assert notice["AlarmDescription"].endswith(f" docs/operate.md#{name}")


def test_what_a_run_and_a_reconcile_print_of_a_bad_and_a_late_booking_raises_the_alarms_on_them(
    application: Application, alarms: dict[str, dict[str, Any]], on_call: OnCall
) -> None:
    since, day = time.time(), application.past_day()
    day.book("good", "08:10:00Z")
    day.book("bad", "08:20:00Z", OrderTime="yesterday")
    assert day.run(8).output["SetAside"] == 1
    day.book("late", "08:30:00Z")
    assert day.reconcile(8).output["Counts"]["MissingInLedger"] == 1

    lines = [line for module in ("dispatch_page", "write_report") for line in printed(application, module, since)]
    assert len(lines) == 2
    for line in lines:
        put_as_cloudwatch_would(application, line)

    # Of other metrics, put before, the embedded AWS evaluates the alarms as well.
    assert {"setaside", "missinginledger"} <= going_off(application, alarms)
    assert [len(told_of(on_call, alarms[name])) for name in ("setaside", "missinginledger")] == [1, 1]


def test_the_dashboard_stands_under_the_stack_s_name(application: Application) -> None:
    assert application.outputs["DashboardName"] == STACK
    body = application.client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"]
    assert application.outputs["LedgerTableName"] in body
    assert "${Token" not in body
