"""Make the README's pictures of a run report anew: `python -m tools.report.picture`, after `make run`.

They show the generated hour as it was dispatched here.  Its counts are always the same, its times are those measured.
"""

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from PIL import Image

from functions.adapters.journal import runs_of
from functions.domain.window import Window
from tools.application import Application, NotDeployedError
from tools.command import leave
from tools.report.figures import gather
from tools.report.page import page
from tools.runs.records import find_run, ledger_table
from tools.samples import generated_hour
from tools.workspace import ROOT

PICTURES: Final = (ROOT / "docs" / "pictures" / "run-report.png", ROOT / "docs" / "pictures" / "run-report-dark.png")
COLOURS: Final = 128
"""Of a picture; the edges of letters take most of them."""
BROWSER_SECONDS: Final = 60.0


def main() -> int:
    """Write the pictures."""
    try:
        application = Application.deployed()
    except NotDeployedError as error:
        print(f"run_report_picture: {error}", file=sys.stderr)
        return 1
    window = Window.starting(generated_hour().window_start)
    dispatched = next((run for run in runs_of(ledger_table(application), window) if run.outcome == "Dispatched"), None)
    if dispatched is None:
        print("run_report_picture: the generated hour was not dispatched yet; `make run` does", file=sys.stderr)
        return 1
    report = gather(application, find_run(application, dispatched.run_id), datetime.now(UTC))
    PICTURES[0].parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "report.html"
        file.write_text(page(report), encoding="utf-8")
        command = ["node", str(Path(__file__).with_suffix(".mjs")), str(file), *map(str, PICTURES)]
        subprocess.run(command, check=True, timeout=BROWSER_SECONDS, env={**os.environ, "TMPDIR": directory})
    for picture in PICTURES:
        with Image.open(picture) as image:
            small = image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(picture, optimize=True)
        print(f"{picture.relative_to(ROOT)}, {picture.stat().st_size / 1000:,.0f} kB")
    return 0


if __name__ == "__main__":
    leave(main, interrupted="the pictures may be half made.")
