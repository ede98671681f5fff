"""What is to be typed next is for the application, and the account, that was spoken to."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.command_line import NAME, aws_line, command_line, note_typed
from tools.workspace import ROOT


@pytest.mark.parametrize(
    ("typed", "own", "aws"),
    [
        ({}, "dispatchctl status", "aws sts"),
        ({"stage": "Sandbox"}, "dispatchctl --stage Sandbox status", "aws sts"),
        (
            {"stage": "Sandbox", "profile": "on call", "region": "eu-west-1"},
            "dispatchctl --stage Sandbox --profile 'on call' --region eu-west-1 status",
            "aws --profile 'on call' --region eu-west-1 sts",
        ),
    ],
    ids=["nothing typed", "a stage", "everything"],
)
def test_the_options_that_were_typed_are_those_of_the_next_command(
    monkeypatch: pytest.MonkeyPatch, typed: dict[str, str], own: str, aws: str
) -> None:
    monkeypatch.setattr("tools.command_line._typed", {"stage": "an earlier one"})
    note_typed(typed)

    assert command_line("status") == own
    assert aws_line("sts") == aws


@pytest.mark.parametrize("source", sorted((ROOT / "tools").rglob("*.py")), ids=lambda path: path.stem)
def test_no_command_line_is_told_without_these_options(source: Path) -> None:
    assert [text for text in _told(ast.parse(source.read_text("utf-8"))) if f"{NAME} " in text] == []


def _told(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    documenting = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documenting:
            yield node.value
