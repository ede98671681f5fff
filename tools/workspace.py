"""Where the developer commands keep what they make."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""The repository."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with one emulator and what is deployed into it."""

    directory: Path

    @classmethod
    def chosen(cls) -> "Workspace":
        """The folder that `DISPATCHER_STATE_DIR` names, so that several can stand side by side; else `.local`."""
        return cls(Path(os.environ.get("DISPATCHER_STATE_DIR") or ROOT / ".local").resolve())

    @property
    def emulator(self) -> Path:
        """The emulator's own folder."""
        return self.directory / "emulator"

    @property
    def outputs(self) -> Path:
        """Where the deployed application answers and what it consists of, for all who want to talk to it."""
        return self.directory / "outputs.json"

    @property
    def lock(self) -> Path:
        """Held by the command that starts the emulator and deploys."""
        return self.directory / "lock"
