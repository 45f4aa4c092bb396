"""What the app is looking at: a model or a bundle on the disk."""

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
    """By its looks alone; whether it is sound, the command line says."""
    return Subject(path, "bundle" if path.is_dir() or path.suffix == ".edgeopt" else "model")
