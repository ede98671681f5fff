"""The README's table of figures is the one that was measured last."""

import json
import re
from typing import Any, Final

import pytest

from benchmarks.figures import LAYOUTS
from benchmarks.memory import RESULTS
from tests.unit.test_imports import ROOT

FIGURES: Final[list[dict[str, Any]]] = json.loads((RESULTS / "latest.json").read_text("utf-8"))["figures"]
ROW: Final = re.compile(r"^\| (?P<name>[^|]+?) \| (?P<goal><= [0-9.]+|shown) \| (?P<value>[0-9.,]+) \|$", re.MULTILINE)
WAYS: Final = ("an invocation", "a child execution")
SHOWN: Final = {
    "peak RSS, full path / paged at 300,000",
    *(f"cost, {way} for each record / {layout}" for way in WAYS for layout in LAYOUTS),
}


def rows() -> dict[str, tuple[str, float]]:
    text = (ROOT / "README.md").read_text("utf-8")
    return {row["name"]: (row["goal"], float(row["value"].replace(",", ""))) for row in ROW.finditer(text)}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["name"])
def test_a_figure_with_a_goal_stands_in_the_readme_as_it_was_measured(figure: dict[str, Any]) -> None:
    if figure["goal"] is None and figure["name"] not in SHOWN:
        assert figure["name"] not in rows()
    elif not figure["name"].startswith("leases and plans"):
        goal, value = rows()[figure["name"]]
        assert goal == (figure["goal"] or "shown")
        assert value == pytest.approx(figure["value"], rel=0.005)


def test_no_row_of_the_readme_is_of_a_figure_that_was_not_measured() -> None:
    assert rows().keys() <= {figure["name"] for figure in FIGURES}


def test_where_a_goal_is_missed_the_reason_is_told() -> None:
    for figure in FIGURES:
        assert figure["met"] is not False or ";" in figure["note"], figure
