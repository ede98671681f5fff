"""The logs of all that ran before, failed runs too: they hold nothing of a booking."""

import json
import re
from dataclasses import replace
from datetime import date

from functions.domain.lane import FIRST_MERGE
from tests.deployed.application import COMPARING, RECONCILING, REDOING, Application, Day, forbid_uploads_of
from tests.deployed.conftest import Redo

LEAST_LENGTH = 5
"""A shorter value, such as the number of a shop, stands in a log for other things too."""
FULL_HOUR = re.compile(r"[0-9-]{10}T[0-9]{2}:00:00Z")
"""A window's start or end."""
SAID_BY_THE_RUN = ("BookingDateUTC", "BookingTimeUTC", "RewardStatus", "RewardType")
"""Attributes whose values are a window's, or one of a few words."""

GROUPED = ("lay_out_lanes", "stage_page", "merge_bucket")
"""The functions of a run that groups its whole window."""


def words(text: str) -> set[str]:
    return {word.strip(".:") for word in re.split(r"[\s\"\\,;{}()\[\]=<>']+", text)}


def logged(application: Application) -> dict[str, str]:
    """All that stands in each log group of the functions."""
    logs = application.client("logs")
    groups = {function["LoggingConfig"]["LogGroup"] for function in application.functions().values()}
    pages = {group: logs.get_paginator("filter_log_events").paginate(logGroupName=group) for group in groups}
    return {
        group: "\n".join(event["message"] for page in of_group for event in page["events"])
        for group, of_group in pages.items()
    }


def booked(application: Application) -> tuple[set[str], set[str]]:
    """The ids, amounts and times of every booking; and of these the record keys."""
    pages = (
        application.client("dynamodb").get_paginator("scan").paginate(TableName=application.outputs["BookingTableName"])
    )
    bookings = [booking for page in pages for booking in page["Items"]]
    values = {
        value.get("S") or value.get("N") or ""
        for booking in bookings
        for name, value in booking.items()
        if name not in SAID_BY_THE_RUN
    }
    told = {value for value in values if len(value) >= LEAST_LENGTH and not FULL_HOUR.fullmatch(value)}
    return told, {booking["RecordId"]["S"] for booking in bookings}


def test_no_log_holds_anything_of_a_booking_but_the_record_keys_in_a_failures_token(
    application: Application, redo: Redo
) -> None:
    day = Day(application, date(2020, 1, 2))  # only an hour that is over can be reconciled
    for number in range(1, 4):
        day.book(f"R{number}", f"08:0{number}:00Z", f"logged-{number}")
        day.book(f"S{number}", f"10:0{number}:00Z", f"logged-{number}")
        day.book(f"T{number}", f"12:0{number}:00Z", f"logged-{number}")
        day.book(f"U{number}", f"14:{number}0:00Z", f"logged-{number}")
    with application.wire.reacting(forbid_uploads_of("logged-3")):
        failed = [
            day.run(8, PageSize=2),
            day.run(12, PageSize=2, Grouping="window"),
            day.run(14, PageSize=1, Slices=2),
        ]
    outputs = [
        day.run(8, PageSize=2).output,
        day.run(10, PaginationEnabled=False).output,
        day.run(12, Resume=True).output,
        day.run(14, Resume=True).output,
    ]

    day.book("V1", "08:40:00Z", "logged-1")
    reconciled = day.reconcile(8, AuditTable=True).output
    poisoned, *worked = day.tasks(8)
    poison = {**poisoned.body, "Data": json.dumps({**poisoned.data, "OrderCount": 2})}
    batch = enumerate([replace(poisoned, body=poison), *worked])
    answer = application.client("lambda").invoke(
        FunctionName=application.function_names["grant_tasks"],
        Payload=json.dumps({"Records": [task.delivered(f"logged-message-{place}") for place, task in batch]}),
    )
    compared = application.run(day.input(8, PageSize=2), "Compare").output
    refused, redone = redo(reconciled["Report"], by="Ann"), redo(reconciled["Report"], by="Bob").output

    (values, keys), logs = booked(application), logged(application)
    found = {group: words(text) & values for group, text in logs.items()}

    assert [execution.status for execution in failed] == ["FAILED"] * 3
    assert [execution.report.get("Lane") for execution in failed] == [None, FIRST_MERGE, 1]
    assert failed[0].report["Token"]["RecordId"] == {"S": f"R2@{day.date}"}
    reports = [execution.report for execution in failed]
    assert all(output["RunId"] in "".join(logs.values()) for output in (*reports, *outputs))
    assert all(application.logged(module, outputs[2]["RunId"]) for module in GROUPED)
    assert reconciled["Counts"]["MissingInLedger"] == 1
    assert all(application.logged(module, day.window(8)) for module in RECONCILING)
    assert compared["Outcome"] == "Differences"
    assert all(application.logged(module, day.window(8)) for module in COMPARING)
    assert (refused.error, redone["Dispatched"]) == ("NotApproved", 1)
    assert all(application.logged(module, redone["RunId"]) for module in REDOING)
    assert json.load(answer["Payload"]) == {"batchItemFailures": [{"itemIdentifier": "logged-message-0"}]}
    assert ["Reason" in line for line in application.logged("grant_tasks", "logged-message")] == [True, False, False]
    assert {f"R2@{day.date}", "member-logged-3", "order-S1@" + str(day.date), "27182.81828"} < values
    (of_failures,) = [group for group in logs if "ReportFailure" in group]
    assert f"R2@{day.date}" in found[of_failures]
    assert found.pop(of_failures) <= keys
    assert set().union(*found.values()) == set()
