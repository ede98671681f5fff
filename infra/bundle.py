"""The Lambda bundle: one directory that says which interpreter and which processor it was built for."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self, get_args

Architecture = Literal["arm64", "x86_64"]
"""A processor by the name that Lambda gives it."""

MANIFEST: Final = "bundle.json"


class BundleMissingError(Exception):
    """The directory holds no finished bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaBundle:
    """A finished bundle.  The functions take runtime and architecture from it: they cannot disagree."""

    directory: Path
    python: str
    """The minor version that chose the wheels and compiled the modules, such as `3.12`."""
    architecture: Architecture

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the manifest of a bundle.

        Raises:
            BundleMissingError: there is none, or it is unreadable; the message names the command that builds it.
        """
        try:
            manifest = json.loads((directory / MANIFEST).read_text(encoding="ascii"))
            python, architecture = manifest["python"], manifest["architecture"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            message = f"{directory} holds no Lambda bundle. `make synth` builds it before it synthesizes."
            raise BundleMissingError(message) from error
        if architecture not in get_args(Architecture):
            raise BundleMissingError(f"{directory / MANIFEST} names the unknown architecture {architecture!r}.")
        return cls(directory=directory, python=python, architecture=architecture)

    def write_manifest(self) -> None:
        """Declare the directory a finished bundle: the builder's last step."""
        manifest = {"python": self.python, "architecture": self.architecture}
        (self.directory / MANIFEST).write_text(json.dumps(manifest) + "\n", encoding="ascii")
