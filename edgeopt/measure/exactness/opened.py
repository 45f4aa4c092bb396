"""A model that is loaded once and asked many things."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.errors import EdgeoptError

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend, TensorInfo


class OpenedModel:
    """Raises EdgeoptError where the model does not load."""

    def __init__(self, path: Path, backend: "Backend", options: "Mapping[str, str] | None" = None) -> None:
        self.path, self.backend, self._options = path, backend, options or {}
        self._session = backend.load(path, self._options)

    @property
    def inputs(self) -> "tuple[TensorInfo, ...]":
        return self._session.inputs

    def run(self, sample: "Mapping[str, Any]") -> dict[str, Any]:
        try:
            return self._session.run(sample)
        except EdgeoptError:
            # A runtime that crashed has lost the model.
            self._session.close()
            self._session = self.backend.load(self.path, self._options)
            raise

    def close(self) -> None:
        self._session.close()
