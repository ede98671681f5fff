"""How an execution of the state machine is named in the journal."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Final

from functions.domain.window import parse_instant

REDO_RUN: Final = "redo-"
"""What the id of a redo's run begins with; any other begins with a date."""
_START: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


def run_id_of(execution_name: str, started_at: str) -> str:
    """The run's id: the start time and the execution's name, since AWS gives a name out again after 90 days.

    It matches `[A-Za-z0-9_-]{1,97}`, so that it can stand in object keys; another name is replaced by its hash.
    """
    if _NAME.fullmatch(execution_name) is None:
        execution_name = hashlib.sha256(execution_name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    start = datetime.fromtimestamp(parse_instant(started_at).seconds, UTC)
    return f"{start:{_START}}-{execution_name}"


def start_of(run_id: str) -> float | None:
    """When the execution started that `run_id_of` named, in epoch seconds; None for an id of another form."""
    try:
        return datetime.strptime(run_id.partition("-")[0], _START).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
