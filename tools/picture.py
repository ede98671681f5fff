"""The state machines as Mermaid flowcharts, drawn from their definitions so that they cannot go stale.

`python -m tools.picture` writes each between its markers in the README and in docs/architecture.md.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DRAWN: Final = ("README.md", "docs/architecture.md")
"""Where there are markers: `<!-- machine dispatch: drawn by tools/picture.py -->`, the name being the definition's."""

_MARKED: Final = re.compile(
    r"(<!-- machine (?P<name>\w+): drawn by tools/picture\.py -->\n).*?(<!-- end of machine -->)", re.DOTALL
)
_SHAPES: Final = {
    "Choice": '{{"%s"}}',
    "Task": '["%s"]',
    "Map": '[["%s"]]',
    "Fail": '(["%s"])',
    "Pass": '(["%s"])',
}


def chart(definition: dict[str, Any]) -> str:
    """The definition's states and transitions; failures as dotted arrows."""
    states: dict[str, dict[str, Any]] = definition["States"]
    ids = {name: re.sub(r"\W+", "_", name).strip("_") for name in states}
    nodes = [f"    {ids[name]}{_SHAPES[state['Type']] % name}" for name, state in states.items()]
    edges = [
        f"    {ids[name]} {arrow} {ids[target]}"
        for name, state in states.items()
        for arrow, target in _transitions(state)
        if states[target]["Type"] != "Fail" or state["Type"] != "Choice"
    ]
    return "\n".join(["```mermaid", "flowchart TD", *nodes, *edges, "```"])


def _transitions(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for choice in state.get("Choices", ()):
        yield f'-- "{_answer(choice)}" -->', choice["Next"]
    if "Default" in state:
        yield '-. "else" .->', state["Default"]
    if "Next" in state:
        yield "-->", state["Next"]
    for catch in state.get("Catch", ()):
        yield '-. "error" .->', catch["Next"]


def _answer(choice: dict[str, Any]) -> str:
    """What must hold for the choice, e.g. `HasMore`, `not HasMore`, `full`; of a list, that there is anything in it."""
    if "StringEquals" in choice:
        return str(choice["StringEquals"])
    name = str(choice["Variable"]).rpartition(".")[2].removesuffix("[0]")
    return name if choice.get("BooleanEquals", choice.get("IsPresent")) else f"not {name}"


def with_charts(text: str) -> str:
    """The text with a chart between each pair of markers, drawn from the definition as it is now."""
    return _MARKED.sub(lambda marked: f"{marked[1]}{_drawn(marked['name'])}\n{marked[3]}", text)


def _drawn(name: str) -> str:
    return chart(json.loads((ROOT / "statemachine" / f"{name}.asl.json").read_text(encoding="utf-8")))


def main() -> None:
    """Draw the charts where they are shown."""
    for name in DRAWN:
        document = ROOT / name
        document.write_text(with_charts(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
