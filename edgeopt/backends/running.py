"""Running a model on samples, to look at what it answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeopt.backends.base import Array, Backend, Options


def run_all(
    path: Path, feeds: Sequence[Mapping[str, Array]], backend: Backend, options: Options | None = None
) -> list[dict[str, Array]]:
    """A model's outputs on every sample."""
    session = backend.load(path, options or {})
    try:
        return [session.run(sample) for sample in feeds]
    finally:
        session.close()
