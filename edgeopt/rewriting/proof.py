"""Holds a rewritten model against its source: equal numbers in one runtime, and it loads wherever that does."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt.backends.full_precision import in_full_precision
from edgeopt.errors import EdgeoptError, MissingError, ModelError, VerificationError
from edgeopt.hw.device import Unavailable
from edgeopt.rewriting.frames import factors_of, frame_of, resized
from edgeopt.rewriting.plain_outputs import has_other_outputs, write_with_tensors

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Backend, TensorInfo
    from edgeopt.bench.apart import Apart
    from edgeopt.graph.model import Model
    from edgeopt.graph.passes import PassContext
    from edgeopt.graph.pipeline import Error
    from edgeopt.graph.verify import Accuracy

FLOOR_DB = 80.0
"""Exact rewrites only round differently: 100 to 140 dB in float32. Below this floor one of them is wrong."""
SAMPLES = 8
LARGE_BYTES = 1_500_000_000
"""Above this only the judge loads a model: OpenVINO takes 2.4 times a model's size, ONNX Runtime 1.05 times."""
OTHERS_LIMIT_S = 30.0
"""OpenVINO takes minutes over a chain of 10,000 nodes."""
BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
"""The first that runs the source judges the numbers; in the others a model must load where its source does."""

Feeds = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The source's outputs on some samples, and a folder to run other models from."""

    backend: "Backend"
    feeds: Feeds
    """What the rewritten model gets, with the dimensions in the source's order."""
    reference: list[dict[str, Any]]
    others: "tuple[Backend, ...]" = ()
    floor_db: float = FLOOR_DB
    apart: "Apart | None" = None
    """Where the runtimes run; None: in this process."""
    plain: bool = False
    """Whether sequences and maps come out as tensors."""
    last: "list[tuple[ir.Model, Accuracy]]" = field(default_factory=list)
    folder: "tempfile.TemporaryDirectory[str]" = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="edgeopt-proof-")
    )

    @classmethod
    def of(
        cls,
        model: "Model",
        data: Path | None,
        context: "PassContext | None" = None,
        floor_db: float = FLOOR_DB,
        *,
        padded: bool = False,
    ) -> "SourceCheck":
        """Runs the source, on the user's data or on made-up samples; raises where that cannot be.

        `padded`: also on samples that show whether padding matters. In a process apart: a runtime that crashes at
        a model is a reason, and Ctrl-C need not wait for it.
        """
        from edgeopt.bench.apart import Apart

        _check_steady(model)
        with ExitStack() as undone:
            apart = undone.enter_context(closing(Apart()))
            folder = tempfile.TemporaryDirectory(prefix="edgeopt-proof-")
            undone.enter_context(folder)
            check = cls._of(model, data, context, floor_db, apart, folder, padded=padded)
            undone.pop_all()
        return check

    @classmethod
    def _of(
        cls,
        model: "Model",
        data: Path | None,
        context: "PassContext | None",
        floor_db: float,
        apart: "Apart",
        folder: "tempfile.TemporaryDirectory[str]",
        *,
        padded: bool,
    ) -> "SourceCheck":
        backends = tuple(in_full_precision(apart.of(backend)) for backend in _backends())
        path = model.path
        if plain := _bytes(model) <= LARGE_BYTES and has_other_outputs(path):
            path = Path(folder.name) / "source.onnx"
            write_with_tensors(model.path, path)
        inputs = _inputs(model, path, context.shapes if context else {}, backends)
        if context is not None:
            inputs = tuple(frame_of(info, context.resize) for info in inputs)
        factors = factors_of(model, context) if context else None
        feeds = _samples(model, inputs, data)
        if padded:
            from edgeopt.rewriting.padded_cases import padded_cases

            feeds += padded_cases(model.ir, feeds[0])
        given = [_prepared(sample, context, factors) for sample in feeds] if context else feeds
        what = "the samples in --data" if data is not None else "made-up samples"
        try:
            backend, reference = first_answer(path, given, backends)
        except ModelError as error:
            raise VerificationError(
                f"The source model does not run on {what}: {error.message}",
                "Give samples that fit with --data.",
            ) from error
        others = () if _bytes(model) > LARGE_BYTES else _also_loading(path, backend, apart)
        return cls(backend, feeds, reference, others, floor_db, apart, plain, folder=folder)

    @property
    def sample_count(self) -> int:
        return len(self.feeds)

    def accuracy(self, model_ir: "ir.Model") -> "Accuracy":
        """Saves the model, runs it, compares; asked again about the model that it saw last, it remembers."""
        from edgeopt.graph.turned import as_model_takes, as_source_gives
        from edgeopt.graph.verify import compare_outputs, run_all

        if not self.last or self.last[0][0] is not model_ir:
            feeds = [as_model_takes(sample, model_ir) for sample in self.feeds]
            outputs = as_source_gives(run_all(self._saved(model_ir), feeds, self.backend), model_ir)
            self.last[:] = [(model_ir, compare_outputs(self.reference, outputs))]
        return self.last[0][1]

    def error(self, model_ir: "ir.Model") -> "Error":
        from edgeopt.graph.pipeline import Error

        accuracy = self.accuracy(model_ir)
        return Error(accuracy.snr_db, max((output.max_abs for output in accuracy.outputs), default=0.0))

    def why_wrong(self, model_ir: "ir.Model") -> str | None:
        """Why a model is not the source any more, or None."""
        try:
            accuracy = self.accuracy(model_ir)
        except EdgeoptError as error:
            return error.message.rstrip(".")
        if accuracy.problem:
            return accuracy.problem.rstrip(".")
        if accuracy.snr_db < self.floor_db:
            return f"{accuracy.snr_db:.1f} dB against the source, and exact rewrites keep {self.floor_db:.0f}"
        path = Path(self.folder.name) / "candidate.onnx"
        return next((reason for other in self.others if (reason := _why_not_loading(path, other))), None)

    def _saved(self, model_ir: "ir.Model") -> Path:
        from edgeopt.graph.model import save

        path = Path(self.folder.name) / "candidate.onnx"
        for old in path.parent.glob(f"{path.name}*"):
            old.unlink()  # weights that stand in files of their own have another name each time
        save(model_ir, path)
        if self.plain:
            write_with_tensors(path, path)
        return path

    def close(self) -> None:
        if self.apart is not None:
            self.apart.close()
        self.folder.cleanup()


def first_answer(
    path: Path, feeds: Feeds, backends: "tuple[Backend, ...]" = ()
) -> "tuple[Backend, list[dict[str, Any]]]":
    """The first runtime that runs a model, and what it answers; raises ModelError where none does."""
    from edgeopt.graph.verify import run_all

    known = backends or tuple(in_full_precision(backend) for backend in _backends())
    return _first(lambda backend: run_all(path, feeds, backend), known)


def _first(ask: "Callable[[Backend], Any]", backends: "tuple[Backend, ...]") -> "tuple[Backend, Any]":
    reasons, missing = [], []
    for backend in backends:
        found = backend.available()
        if isinstance(found, Unavailable):
            missing.append(f"{backend.title} is not here: {found.reason}")
            continue
        try:
            return backend, ask(backend)
        except EdgeoptError as error:
            reasons.append(error.message)
    if not reasons:
        raise MissingError("; ".join(missing), "pip install 'edgeopt[cpu]'")
    raise ModelError(" ".join(f"{reason.rstrip('.')}." for reason in reasons))


def _backends() -> "tuple[Backend, ...]":
    from edgeopt.backends import backend_named

    return tuple(backend_named(name) for name in BACKENDS)


def _inputs(
    model: "Model", path: Path, shapes: "Mapping[str, tuple[int, ...]]", backends: "tuple[Backend, ...]"
) -> "tuple[TensorInfo, ...]":
    """What the source takes, in the shapes that the user fixes."""

    def look(backend: "Backend") -> "tuple[TensorInfo, ...]":
        session = backend.load(path, {})
        try:
            return session.inputs
        finally:
            session.close()

    _, found = _first(look, backends)
    weights = set(model.ir.graph.initializers)
    return tuple(
        msgspec.structs.replace(info, shape=shapes[info.name]) if info.name in shapes else info
        for info in found
        if info.name not in weights
    )


def _samples(model: "Model", inputs: "tuple[TensorInfo, ...]", data: Path | None) -> Feeds:
    from edgeopt.data import load_data
    from edgeopt.graph.verify import generate_feeds

    if data is None:
        return generate_feeds(inputs, model.ir, SAMPLES // 2, seed=0)
    samples = load_data(data, inputs)
    return [samples.feeds(index) for index in range(min(len(samples), SAMPLES))]


def _prepared(sample: dict[str, Any], context: "PassContext", factors: tuple[int, int] | None) -> dict[str, Any]:
    """What the source gets where the rewritten model prepares its input itself."""
    import numpy as np

    if context.resize is not None and factors is not None and context.resize.input_name in sample:
        sample = resized(sample, context.resize.input_name, factors)
    wanted = context.normalize
    if wanted is None or wanted.input_name not in sample:
        return sample
    array = np.asarray(sample[wanted.input_name])
    channels = (-1,) + (1,) * (array.ndim - 2)
    mean, deviation = (np.asarray(each, np.float64).reshape(channels) for each in (wanted.mean, wanted.deviation))
    ready = ((array.astype(np.float64) * wanted.scale - mean) / deviation).astype(array.dtype)
    return {**sample, wanted.input_name: ready}


def _check_steady(model: "Model") -> None:
    """Runtimes seed what has no seed of its own by the node's place, so that any rewrite changes the numbers."""
    from edgeopt.graph.nodes import is_random, label, nodes_of

    loose = [label(node) for node in nodes_of(model.ir) if is_random(node) and "seed" not in node.attributes]
    if loose:
        raise VerificationError(
            f"The source model draws random numbers in {loose[0]}, so nothing can be proved about its results.",
            "--no-verify writes the result unproved.",
        )


def _bytes(model: "Model") -> int:
    return sum(file.stat().st_size for file in (model.path, *model.external))


def _also_loading(path: Path, judge: "Backend", apart: "Apart") -> "tuple[Backend, ...]":
    """The other runtimes that load the source.

    One that takes long over it would take as long over the result, and is not asked.
    """
    return tuple(
        apart.of(backend)
        for backend in _backends()
        if backend.name != judge.name
        and not isinstance(backend.available(), Unavailable)
        and _why_not_loading(path, apart.of(backend, OTHERS_LIMIT_S)) is None
    )


def _why_not_loading(path: Path, backend: "Backend") -> str | None:
    try:
        backend.load(path, {}).close()
    except EdgeoptError as error:
        return f"{backend.title} loads the source, but not the result: {error.message.rstrip('.')}"
    return None
