"""Write the contract of tasks, their objects and reports as JSON Schemas, from the models that they are read with.

    python -m tools.schemas

A test holds the files against the models.
"""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from functions.usecases.report_contract import CompareReport, ReconcileReport
from functions.worker.contract import PackedHeader, TaskHeader, TaskMessage, TaskObject
from tools.workspace import ROOT

SCHEMAS: Final = ROOT / "schemas"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    """Without a title for each field: it would only repeat the field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """See the base class."""
        del schema
        return False


def documents() -> dict[Path, str]:
    """Every schema by its file."""
    task, packed = _schema_of(TaskMessage), _schema_of(PackedHeader)
    task["$defs"] = packed.pop("$defs")  # to which the schema within refers from the document's root
    task["properties"]["Data"]["contentSchema"] = {"anyOf": [_schema_of(TaskHeader), packed]}
    schemas = {
        "task": task,
        "task-object": _schema_of(TaskObject),
        "report": _schema_of(ReconcileReport),
        "compare-report": _schema_of(CompareReport),
    }
    return {
        SCHEMAS / f"{name}.schema.json": json.dumps({"$schema": DIALECT, **schema}, indent=2) + "\n"
        for name, schema in schemas.items()
    }


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(schema_generator=_Untitled)


def main() -> None:
    """Write the files."""
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in documents().items():
        path.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
