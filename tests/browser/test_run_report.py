"""Each kind of run report in a real browser: on a phone, on a screen, light and dark, and on paper."""

import json
import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.staged_reports import REPORTS
from tools.report.figures import MAX_BARS
from tools.report.page import page

LOOK_SECONDS: Final = 240.0
"""The longest that the browser may take for all reports.  Twenty are usual, of which five unpack it."""
VIEWS: Final = ("phone", "phone-dark", "desktop", "desktop-dark", "paper")
DARK: Final = 128

each_view = pytest.mark.parametrize("view", VIEWS)
each_report = pytest.mark.parametrize("name", REPORTS)

Looks = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reports and their pictures are left."""
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def looks(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """What the browser finds of each report in each view."""
    node, environment = shutil.which("node"), {**os.environ}
    assert node is not None
    if platform.machine() not in {"x86_64", "AMD64"}:
        chromium = shutil.which("chromium")
        if chromium is None:
            pytest.skip(f"@sparticuz/chromium brings a browser for x64, not for {platform.machine()}; none is on PATH")
        environment["CHROMIUM"] = chromium
    files = []
    for name, make in REPORTS.items():
        files.append(directory / f"{name}.html")
        files[-1].write_text(page(make()), encoding="utf-8")
    unpacked = tmp_path_factory.mktemp("browser")
    command = [node, "look.mjs", str(directory), *map(str, files)]
    with subprocess.Popen(  # noqa: S603 - our own script
        command,
        cwd=Path(__file__).parent,
        env={**environment, "TMPDIR": str(unpacked), "HOME": str(unpacked)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=LOOK_SECONDS)
        finally:
            _end(process.pid)
    assert process.returncode == 0, errors
    assert not _running(unpacked), "a browser was left behind"
    shutil.rmtree(unpacked)  # 200 MB
    found: Looks = json.loads(printed)
    return found


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _running(directory: Path) -> list[str]:
    """The commands that run a program of this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
        except OSError:
            continue
        if command.startswith(str(directory)):
            found.append(command)
    return found


@each_view
@each_report
def test_the_browser_has_nothing_to_complain_of_and_asks_nobody(looks: Looks, name: str, view: str) -> None:
    look = looks[name][view]

    assert look["errors"] == []
    assert look["requests"] == []
    assert look["scripts"] == 0


@each_view
@each_report
def test_nothing_is_cut_and_nothing_overlaps(looks: Looks, name: str, view: str) -> None:
    look = looks[name][view]

    assert look["overflow"] <= 0
    assert look["cut"] == []
    assert look["overlapping"] == []
    assert look["swallowed"] == []


@each_view
@each_report
def test_text_has_a_contrast_of_4_5_and_what_is_drawn_one_of_3(looks: Looks, name: str, view: str) -> None:
    look = looks[name][view]

    assert look["faint"] == []
    assert look["shapes"] == []


@each_report
def test_the_page_is_told_to_those_who_cannot_see_it(looks: Looks, name: str) -> None:
    look = looks[name]["phone"]

    assert look["language"] == "en"
    assert look["title"].startswith("Run report: ")
    assert look["nameless"] == []
    assert look["levels"][0] == 1
    assert look["levels"].count(1) == 1
    assert look["disorder"] == []
    assert look["repeated"] == []


def test_light_and_dark_are_as_the_reader_has_it_and_paper_is_white(looks: Looks) -> None:
    for views in looks.values():
        grounds = {view: _brightness(look["ground"]) for view, look in views.items()}

        assert {view for view, brightness in grounds.items() if brightness < DARK} == {"phone-dark", "desktop-dark"}
        assert views["paper"]["media"] == "print"
        assert grounds["paper"] == 255


def test_paper_shows_the_tables_that_a_screen_folds_away(looks: Looks) -> None:
    views = looks["three-pages"]

    assert "Orders together" not in views["desktop"]["text"]
    assert "Orders together" in views["paper"]["text"]


@pytest.mark.parametrize(("name", "bars"), [("three-pages", 3), ("three-thousand-pages", MAX_BARS)])
def test_a_run_of_any_length_has_a_readable_number_of_bars(looks: Looks, name: str, bars: int) -> None:
    assert looks[name]["phone"]["columns"] == bars


def test_each_report_has_pictures_and_a_paper(looks: Looks, directory: Path) -> None:
    for name in looks:
        assert (directory / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        for view in VIEWS:
            assert (directory / f"{name}-{view}.png").stat().st_size > 1000


def _brightness(colour: str) -> int:
    return min(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))
