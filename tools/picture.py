"""The state machine of a run as a Mermaid flowchart, drawn from its definition so that it cannot go stale.

`python -m tools.picture` writes it between the markers of the README.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BEGIN: Final = "<!-- machine: drawn by tools/picture.py -->"
END: Final = "<!-- end of machine -->"
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


def with_chart(readme: str, definition: dict[str, Any]) -> str:
    """The README's text with the chart of this definition between its markers."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{chart(definition)}\n{END}{after}"


def main() -> None:
    """Draw the chart into the README."""
    readme = ROOT / "README.md"
    definition = json.loads((ROOT / "statemachine" / "dispatch.asl.json").read_text(encoding="utf-8"))
    readme.write_text(with_chart(readme.read_text(encoding="utf-8"), definition), encoding="utf-8")


if __name__ == "__main__":
    main()
