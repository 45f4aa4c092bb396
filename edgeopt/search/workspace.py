"""The temporary folder of one search: gone when the search ends, and swept up later when it was killed."""

from contextlib import AbstractContextManager
from pathlib import Path

from edgeopt.bench.processes import workspace as shared


def workspace() -> AbstractContextManager[Path]:
    """A fresh folder (see `edgeopt.bench.processes.workspace`)."""
    return shared.workspace(shared.WORK)
