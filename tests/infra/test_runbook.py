"""The runbook: an entry for each alarm and no other, and nothing in it that is not there."""

import re
from typing import Final

import pytest

from functions.domain.reconcile import Difference
from functions.domain.run import Counts
from tests.infra.template import StackTemplate
from tools.dispatchctl.shell import ExitCode
from tools.workspace import ROOT

DOCS: Final = ROOT / "docs"
RUNBOOK: Final = (DOCS / "operate.md").read_text(encoding="utf-8")
ENTRIES: Final = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", RUNBOOK, re.DOTALL | re.MULTILINE))
FAILURES: Final = [
    "a function dies or runs out of time",
    "an execution times out or is stopped",
    "AWS throttles",
    "the region is in trouble for hours",
    "the schedule misses an hour",
    "the ledger is lost",
    "a task queue is emptied or deleted",
    "bookings are bad data",
    "a wrong deployment",
    "bookings are moved or booked while their hour is read",
]


@pytest.fixture(scope="module")
def links(sandbox: StackTemplate) -> dict[str, str]:
    """Where each alarm's description ends, by the alarm."""
    described = sandbox.properties("AWS::CloudWatch::Alarm")
    return {name.removeprefix("Monitoring"): alarm["AlarmDescription"].split()[-1] for name, alarm in described.items()}


def anchors(markdown: str) -> list[str]:
    """What a heading is linked by: lower case, blanks as hyphens, without what is no word."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def rows(heading: str) -> list[list[str]]:
    """The table of a section, without its head."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", RUNBOOK, re.DOTALL | re.MULTILINE)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_alarm_has_its_entry_and_every_entry_its_alarm(links: dict[str, str]) -> None:
    assert ENTRIES.keys() == links.keys()


def test_the_link_in_an_alarm_s_description_leads_to_its_entry(links: dict[str, str]) -> None:
    assert len(set(anchors(RUNBOOK))) == len(anchors(RUNBOOK))
    for name, link in links.items():
        path, _, anchor = link.partition("#")
        assert (ROOT / path).read_text(encoding="utf-8") == RUNBOOK
        assert anchor in anchors(RUNBOOK), name


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_what_it_means_what_to_look_at_what_to_do_and_how_to_know_it_worked(name: str) -> None:
    assert re.findall(r"^- \*\*(\w+)\*\*: \S", ENTRIES[name], re.MULTILINE) == ["Means", "Look", "Do", "Worked"]


def test_every_link_leads_to_a_place_that_is_there() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", RUNBOOK)
    assert targets
    for target in targets:
        path, _, anchor = target.partition("#")
        text = (DOCS / path).read_text(encoding="utf-8") if path else RUNBOOK
        assert not anchor or anchor in anchors(text), target


def test_every_output_that_it_names_is_one_of_the_stack(sandbox: StackTemplate) -> None:
    assert set(re.findall(r"\$([A-Z]\w+)", RUNBOOK)) <= sandbox.outputs().keys()


def test_each_failure_has_its_objectives_and_a_test_that_is_there() -> None:
    table = rows("Recovery objectives")
    assert [failure for failure, *_ in table] == FAILURES
    for failure, late, lost, met, shown in table:
        assert all((late, lost, met)), failure
        tests = re.findall(r"`(tests/[\w/]+\.py)`", shown)
        assert tests, failure
        assert all((ROOT / test).is_file() for test in tests), failure


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    told = [int(code) for code, _ in re.findall(r"^\| (\d+) \| (.+) \|$", RUNBOOK, re.MULTILINE)]
    assert told == sorted(ExitCode)


def test_what_watching_costs_is_computed_from_what_is_there(links: dict[str, str]) -> None:
    counted = [*Counts().to_state(), "Retries", "RunSeconds", "RedoFailed", *Difference]
    bill = 0.10 * len(links) + 3.00 + 0.30 * len(counted)
    told = " ".join(RUNBOOK.split())
    assert f"{len(links)} alarms at $0.10, one dashboard at $3.00 and {len(counted)} metrics" in told
    assert f"are ${bill:.2f}." in told
