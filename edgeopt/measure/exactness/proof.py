"""Holds a rewritten model against its source: equal numbers in one runtime, and it loads wherever that does."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.full_precision import in_full_precision
from edgeopt.data.regimes import Case, cases
from edgeopt.errors import DiskFullError, EdgeoptError, ModelError, VerificationError
from edgeopt.graph.watching import with_float_outputs
from edgeopt.measure.exactness.cases import (
    Answered,
    LeftOut,
    Ways,
    answered,
    ask_in_other_ways,
    first_difference,
    run_each,
)
from edgeopt.measure.exactness.given import check_steady, ordinary_samples, source_file, taken_inputs
from edgeopt.measure.exactness.opened import OpenedModel
from edgeopt.measure.exactness.plain_outputs import has_other_outputs, write_with_tensors
from edgeopt.measure.exactness.rounding import moved_model
from edgeopt.measure.exactness.runtimes import (
    Feeds,
    also_loading,
    first_answer,
    first_opened,
    proof_backends,
    why_not_loading,
)

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Backend, TensorInfo
    from edgeopt.graph.accuracy import Accuracy
    from edgeopt.graph.model import Model
    from edgeopt.graph.pipeline import Error
    from edgeopt.measure.apart import Apart

FLOOR_DB = 80.0
"""Exact rewrites only round differently: 100 to 140 dB in float32. Below this floor one of them is wrong."""
LARGE_BYTES = 1_500_000_000
"""Above this only the judge loads a model: OpenVINO takes 2.4 times a model's size, ONNX Runtime 1.05 times."""
CANDIDATE = "candidate.onnx"


@dataclass(frozen=True, slots=True)
class Source:
    """The source, and a file of it to run."""

    model_ir: "ir.Model"
    path: Path


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rewritten model answers: to the samples, then in the regimes."""

    path: Path
    """The file that answered, named by its digest."""
    accuracy: "Accuracy"
    answers: "Sequence[Mapping[str, Any] | EdgeoptError | None]"


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The source's outputs on some samples, and a folder to run other models from."""

    backend: "Backend"
    feeds: Feeds
    """The samples, with the dimensions in the source's order."""
    reference: list[dict[str, Any]]
    others: "tuple[Backend, ...]" = ()
    floor_db: float = FLOOR_DB
    apart: "Apart | None" = None
    """Where the runtimes run; None: in this process."""
    plain: bool = False
    """Whether sequences and maps come out as tensors."""
    ordinary: tuple[Answered, ...] = ()
    """The samples with what the source answers, and in time what rounding makes of that."""
    regimes: tuple[Answered, ...] = ()
    """What the source answers where inputs are not ordinary."""
    edges: tuple[Answered, ...] = ()
    """What it answers where inputs are NaN, infinite, -0 or empty; a strict proof judges by these too."""
    strict: bool = False
    left_out: tuple[LeftOut, ...] = ()
    padded_count: int = 0
    """How many of the samples were made to show whether padding matters."""
    source: "Source | None" = None
    """What rounding does to the source is asked of it; None: answers that are not close are wrong."""
    seen: "list[Seen]" = field(default_factory=list)
    """The answers of the model that ran last."""
    failing: "list[Mapping[str, Any]]" = field(default_factory=list)
    """The sample that showed last that a model is wrong."""
    folder: "tempfile.TemporaryDirectory[str]" = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="edgeopt-proof-")
    )

    @classmethod
    def of(
        cls,
        model: "Model",
        data: Path | None,
        shapes: "Mapping[str, tuple[int, ...]] | None" = None,
        floor_db: float = FLOOR_DB,
        *,
        padded: bool = False,
    ) -> "SourceCheck":
        """Runs the source, on the user's data or on made-up samples; raises where that cannot be.

        `shapes`: of the inputs that have them fixed. `padded`: also on samples that show whether padding matters.
        In a process apart: a runtime that crashes at a model is a reason, and Ctrl-C need not wait for it.
        """
        from edgeopt.measure.apart import Apart

        check_steady(model)
        with ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(prefix="edgeopt-proof-")
            undone.enter_context(folder)
            apart = undone.enter_context(closing(Apart()))
            check = cls._of(model, data, shapes or {}, floor_db, apart, folder, padded=padded)
            undone.pop_all()
        return check

    @classmethod
    def _of(
        cls,
        model: "Model",
        data: Path | None,
        shapes: "Mapping[str, tuple[int, ...]]",
        floor_db: float,
        apart: "Apart",
        folder: "tempfile.TemporaryDirectory[str]",
        *,
        padded: bool,
    ) -> "SourceCheck":
        backends = tuple(in_full_precision(apart.of(backend)) for backend in proof_backends())
        path = source_file(model, Path(folder.name))
        if plain := _bytes(model) <= LARGE_BYTES and has_other_outputs(path):
            write_with_tensors(path, Path(folder.name) / "plain.onnx")
            path = Path(folder.name) / "plain.onnx"
        opened = first_opened(path, backends)
        inputs = taken_inputs(model, opened.inputs, shapes)
        feeds = ordinary_samples(model, inputs, data)
        extra: Feeds = []
        if padded:
            from edgeopt.measure.exactness.padded_cases import padded_cases

            extra = padded_cases(model.ir, feeds[0])

        what = "the samples in --data" if data is not None else "made-up samples"
        try:
            check = cls.on(Source(model.ir, path), opened, inputs, feeds, extra, backends, folder, edges=True)
        except ModelError as error:
            raise VerificationError(
                f"The source model does not run on {what}: {error.message}",
                "Give samples that fit with --data.",
            ) from error
        others = () if _bytes(model) > LARGE_BYTES else also_loading(path, check.backend, apart)
        return replace(check, others=others, floor_db=floor_db, apart=apart, plain=plain)

    @classmethod
    def on(  # noqa: PLR0913 - the last three are optional
        cls,
        source: Source,
        opened: OpenedModel,
        inputs: "tuple[TensorInfo, ...]",
        feeds: Feeds,
        extra: Feeds,
        backends: "tuple[Backend, ...]" = (),
        folder: "tempfile.TemporaryDirectory[str] | None" = None,
        *,
        edges: bool = False,
    ) -> "SourceCheck":
        """On these ordinary samples, those that are made to show something, and regimes made from the first.

        `opened`: the source in the first of the runtimes that loads it; it is closed here. `edges`: also where
        inputs are NaN, infinite or empty, which can crash a runtime that is in this process. Raises ModelError
        where no runtime runs the source on the samples.
        """
        samples = [*feeds, *extra]
        opened, reference = first_answer(opened, samples, backends)
        with closing(opened):
            tried = [case for case in cases(inputs, source.model_ir, feeds[0]) if edges or not case.at_edge]
            known, left = answered(opened, tried)
        pairs = zip(samples, reference, strict=True)
        return cls(
            opened.backend,
            samples,
            reference,
            ordinary=tuple(Answered(Case("", feeds), answer) for feeds, answer in pairs),
            regimes=tuple(one for one in known if not one.case.at_edge),
            edges=tuple(one for one in known if one.case.at_edge),
            left_out=tuple(left),
            padded_count=len(extra),
            source=source,
            folder=folder or tempfile.TemporaryDirectory(prefix="edgeopt-proof-"),
        )

    @property
    def sample_count(self) -> int:
        return len(self.feeds) - self.padded_count

    def accuracy(self, model_ir: "ir.Model") -> "Accuracy":
        """How far the ordinary results are from the source's."""
        return self._seen(model_ir).accuracy

    def _seen(self, model_ir: "ir.Model") -> Seen:
        """Saves the model, runs it, compares; the same bytes run once."""
        from edgeopt.graph.accuracy import compare_outputs
        from edgeopt.graph.turned import as_model_takes, as_source_gives

        path = self._saved(model_ir)
        if not self.seen or self.seen[0].path != path:
            asked = [as_model_takes(sample, model_ir) for sample in self._samples()]
            found = run_each(path, asked, self.backend)
            answers = [
                one if one is None or isinstance(one, EdgeoptError) else as_source_gives([one], model_ir)[0]
                for one in found
            ]
            ordinary = answers[: len(self.feeds)]
            failed = next((one for one in ordinary if isinstance(one, EdgeoptError)), None)
            if failed is not None:
                raise failed
            accuracy = compare_outputs(self.reference, [one for one in ordinary if isinstance(one, dict)])
            self.seen[:] = [Seen(path, accuracy, answers)]
        return self.seen[0]

    def _samples(self) -> "list[Mapping[str, Any]]":
        return [*self.feeds, *(one.case.feeds for one in (*self.regimes, *self.edges))]

    def error(self, model_ir: "ir.Model") -> "Error":
        from edgeopt.graph.pipeline import Error

        accuracy = self.accuracy(model_ir)
        return Error(accuracy.snr_db, max((output.max_abs for output in accuracy.outputs), default=0.0))

    def why_wrong(self, model_ir: "ir.Model") -> str | None:
        """Why a model is not the source any more, or None."""
        self.failing.clear()
        try:
            seen = self._seen(model_ir)
        except DiskFullError:
            raise
        except EdgeoptError as error:
            return error.message.rstrip(".")
        if seen.accuracy.problem:
            return seen.accuracy.problem.rstrip(".")
        if seen.accuracy.snr_db < self.floor_db:
            return (
                f"{seen.accuracy.snr_db:.1f} dB against the source; exact rewrites must keep {self.floor_db:.0f}"
            )
        if (said := self._beyond_rounding(seen)) is not None:
            return said
        return next((reason for other in self.others if (reason := why_not_loading(seen.path, other))), None)

    def differs_at_edges(self, model_ir: "ir.Model") -> str | None:
        """Where a model that is right otherwise differs for such inputs; None where it does not."""
        answers = self._seen(model_ir).answers[len(self.ordinary) + len(self.regimes) :]
        return self._first_difference(self.edges, answers)

    def _beyond_rounding(self, seen: Seen) -> str | None:
        known = (*self.ordinary, *self.regimes, *(self.edges if self.strict else ()))
        return self._first_difference(known, seen.answers[: len(known)])

    def _first_difference(
        self, known: Sequence[Answered], answers: "Sequence[Mapping[str, Any] | EdgeoptError | None]"
    ) -> str | None:
        """In which of the samples and regimes a value is not what rounding could make of the source's."""
        found = first_difference(known, answers, self._ask_others)
        if found is None:
            return None
        one, said = found
        self.failing[:] = [one.case.feeds]
        where = f"on inputs of the kind '{one.case.regime}'" if one.case.regime else "on ordinary samples"
        return f"{where} {said}"

    def _ask_others(self, asked: Sequence[Answered], thoroughly: bool) -> None:
        source = self.source
        if source is None:
            return

        def inside() -> Path:
            return self._written("inside", lambda: with_float_outputs(source.model_ir))

        def moved(seed: int) -> Path:
            return self._written(f"moved-{seed}", lambda: moved_model(source.model_ir, seed))

        ask_in_other_ways(Ways(self.backend, source.path, inside, moved), asked, thoroughly)

    def _written(self, name: str, make: "Callable[[], ir.Model]") -> Path:
        """A model like the source, as a file of this proof."""
        from edgeopt.graph.model import save

        path = Path(self.folder.name) / f"{name}.onnx"
        if not path.exists():
            save(make(), path)
            if self.plain:
                write_with_tensors(path, path)
        return path

    def _saved(self, model_ir: "ir.Model") -> Path:
        """The model as a file in a folder named by its digest, so that a path never means another model."""
        from edgeopt.graph.model import digest_of, save

        candidates = Path(self.folder.name) / "candidates"
        candidates.mkdir(exist_ok=True)
        saving = Path(tempfile.mkdtemp(dir=candidates))
        save(model_ir, saving / CANDIDATE)
        if self.plain:
            write_with_tensors(saving / CANDIDATE, saving / CANDIDATE)
        # Weights in a file of their own have their digest in its name, which the model's file holds.
        place = candidates / digest_of((saving / CANDIDATE,))
        for old in set(candidates.iterdir()) - {place, saving}:
            shutil.rmtree(old)  # a bisection of a large model would fill the disk
        if place.exists():
            shutil.rmtree(saving)
        else:
            saving.rename(place)
        return place / CANDIDATE

    def close(self) -> None:
        if self.apart is not None:
            self.apart.close()
        self.folder.cleanup()


def _bytes(model: "Model") -> int:
    return sum(file.stat().st_size for file in (model.path, *model.external))
