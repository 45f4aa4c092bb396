"""Holds a rewritten model against its source for `edgeopt simplify`."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.errors import EdgeoptError, MissingError, VerificationError
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Backend
    from edgeopt.graph.model import Model
    from edgeopt.graph.verify import Accuracy

FLOOR_DB = 80.0
"""Exact rewrites only round differently: 100 to 140 dB in float32. Below this floor one of them is wrong."""
SAMPLES = 8
BACKEND = "onnxruntime-cpu"


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The source's outputs on some samples, and a folder to run other models from."""

    backend: "Backend"
    feeds: list[dict[str, Any]]
    reference: list[dict[str, Any]]
    folder: "tempfile.TemporaryDirectory[str]"

    @classmethod
    def of(cls, model: "Model", data: Path | None) -> "SourceCheck":
        """Runs the source, on the user's data or on made-up samples; raises where that cannot be."""
        from edgeopt.backends import backend_named
        from edgeopt.data import load_data
        from edgeopt.graph.verify import generate_feeds, run_all

        backend = backend_named(BACKEND)
        found = backend.available()
        if isinstance(found, Unavailable):
            raise MissingError(f"{backend.title} is not here: {found.reason}", "pip install 'edgeopt[cpu]'")
        session = backend.load(model.path, {})
        inputs = session.inputs
        session.close()
        weights = set(model.ir.graph.initializers)
        inputs = tuple(info for info in inputs if info.name not in weights)
        if data is not None:
            samples = load_data(data, inputs)
            feeds = [samples.feeds(index) for index in range(min(len(samples), SAMPLES))]
        else:
            feeds = generate_feeds(inputs, model.ir, SAMPLES // 2, seed=0)
        try:
            reference = run_all(model.path, feeds, backend)
        except EdgeoptError as error:
            what = "the samples in --data" if data is not None else "made-up samples"
            raise VerificationError(
                f"The source model does not run on {what}: {error.message}",
                "Give samples that fit with --data.",
            ) from error
        return cls(backend, feeds, reference, tempfile.TemporaryDirectory(prefix="edgeopt-simplify-"))

    @property
    def sample_count(self) -> int:
        return len(self.feeds)

    def accuracy(self, model_ir: "ir.Model") -> "Accuracy":
        """Saves the model, runs it, compares."""
        from edgeopt.graph.model import save
        from edgeopt.graph.verify import compare_outputs, run_all

        path = Path(self.folder.name) / "candidate.onnx"
        save(model_ir, path)
        return compare_outputs(self.reference, run_all(path, self.feeds, self.backend))

    def snr_db(self, model_ir: "ir.Model") -> float:
        return self.accuracy(model_ir).snr_db

    def why_wrong(self, model_ir: "ir.Model") -> str | None:
        """Why a model is not the source any more, or None."""
        try:
            accuracy = self.accuracy(model_ir)
        except EdgeoptError as error:
            return error.message
        if accuracy.problem:
            return accuracy.problem
        if accuracy.snr_db < FLOOR_DB:
            return f"{accuracy.snr_db:.1f} dB against the source, and exact rewrites keep {FLOOR_DB:.0f}"
        return None

    def close(self) -> None:
        self.folder.cleanup()
