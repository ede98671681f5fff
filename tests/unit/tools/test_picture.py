"""The pictures of the machines, where documents show them."""

import re

import pytest

from tools.picture import DRAWN, ROOT, with_charts


@pytest.mark.parametrize("name", DRAWN)
def test_the_pictures_are_the_machines(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")

    assert "<!-- machine dispatch: drawn by tools/picture.py -->\n```mermaid" in text
    assert with_charts(text) == text


def test_the_architecture_shows_every_machine() -> None:
    shown = re.findall(r"<!-- machine (\w+):", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))

    assert sorted(shown) == sorted(file.name.removesuffix(".asl.json") for file in ROOT.glob("statemachine/*"))
