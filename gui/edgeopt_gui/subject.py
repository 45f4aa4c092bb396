"""The subject of the app: an open model or bundle."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Subject:
    path: Path
    kind: Literal["model", "bundle"]

    @property
    def name(self) -> str:
        return self.path.name


def subject_at(path: Path) -> Subject:
    """Returns the subject at a path, with its kind by name only; the command line checks the content."""
    return Subject(path, "bundle" if path.is_dir() or path.suffix == ".edgeopt" else "model")
