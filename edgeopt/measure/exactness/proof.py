"""Comparison of a rewritten model with its source, in every runtime that runs the source."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import in_full_precision
from edgeopt.data.regimes import DistributionCase, cases
from edgeopt.errors import DiskFullError, EdgeoptError, ModelError, VerificationError
from edgeopt.graph.copies import with_float_outputs
from edgeopt.measure.exactness.cases import (
    Answered,
    LeftOut,
    NotCompared,
    Ways,
    answered,
    ask_in_other_ways,
    first_difference,
    run_each,
)
from edgeopt.measure.exactness.inputs import (
    check_steady,
    has_other_outputs,
    ordinary_samples,
    saved,
    taken_inputs,
    write_with_tensors,
    written,
)
from edgeopt.measure.exactness.rounding import TIMES, moved_model
from edgeopt.measure.exactness.runtimes import (
    Feeds,
    OpenedModel,
    also_loading,
    first_answer,
    first_opened,
    proof_backends,
    why_not_loading,
)
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Backend, TensorInfo
    from edgeopt.graph.accuracy import Accuracy
    from edgeopt.graph.model import Model
    from edgeopt.graph.pipeline import NumericError
    from edgeopt.profiles.schema import Data
    from edgeopt.workers.isolated_backend import IsolatedBackends

FLOOR_DB = 80.0
"""Least ratio in dB of an exact rewrite; those that only round differently reach 100 to 140 dB in float32."""
LARGE_BYTES = 1_500_000_000
"""Size above which only the judge loads a model: OpenVINO takes 2.4 times the size, ONNX Runtime 1.05."""
MIN_AGREEMENT_DB = 40.0
"""Least agreement of a runtime with the judge about the source; below it, the runtime proves nothing."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source model, and a file of it to run."""

    model_ir: "ir.Model"
    path: Path


@dataclass(frozen=True, slots=True)
class SeenProof:
    """Answers of a rewritten model: to the samples, then in the regimes."""

    path: Path
    """The file that answered, named by its digest."""
    accuracy: "Accuracy"
    answers: "Sequence[Mapping[str, Any] | EdgeoptError | None]"


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The source's outputs on some samples, and a folder to run other models from."""

    backend: "Backend"
    feeds: Feeds
    """The samples, with their dimensions in the source's order."""
    reference: list[dict[str, Any]]
    others: "tuple[Backend, ...]" = ()
    """The other runtimes that load the source."""
    elsewhere: "list[SourceCheck]" = field(default_factory=list)
    """The same proof in each other runtime that runs the source: a rewrite can be right in one runtime only."""
    not_compared: "list[NotCompared]" = field(default_factory=list)
    """The other runtimes that cannot be compared, with the reasons."""
    wrong_in: "list[SourceCheck]" = field(default_factory=list)
    """The proof in another runtime that last found a model wrong; empty if this proof found it."""
    floor_db: float = FLOOR_DB
    isolated: "IsolatedBackends | None" = None
    """The worker processes of the runtimes; None if they run in this process."""
    plain: bool = False
    """Whether sequences and maps are converted to tensors."""
    ordinary: tuple[Answered, ...] = ()
    """The samples with the source's answers; alternatives by rounding are added if an answer differs."""
    regimes: tuple[Answered, ...] = ()
    """The source's answers in the regimes, apart from those at the edges."""
    edges: tuple[Answered, ...] = ()
    """The source's answers to NaN, infinite, -0 or empty inputs; only a strict proof judges by them."""
    strict: bool = False
    left_out: tuple[LeftOut, ...] = ()
    padded_count: int = 0
    """Number of samples that were made to show whether padding matters."""
    source: "Source | None" = None
    """The source to run again for the effect of rounding; None: every answer that is not close is wrong."""
    seen: "list[SeenProof]" = field(default_factory=list)
    """The answers of the latest model that ran."""
    folder: "tempfile.TemporaryDirectory[str]" = field(default_factory=lambda: temporary_folder("proof"))

    @classmethod
    def of(
        cls,
        model: "Model",
        data: Path | None,
        shapes: "Mapping[str, tuple[int, ...]] | None" = None,
        floor_db: float = FLOOR_DB,
        *,
        padded: bool = False,
        pictures: "Data | None" = None,
    ) -> "SourceCheck":
        """Runs the source on the user's data or on made-up samples; raises EdgeoptError if it cannot.

        `shapes`: of the inputs with fixed shapes. `padded`: adds samples that show whether padding matters. Runs
        in a worker process, so a crash of a runtime becomes a reason, and Ctrl-C need not wait for it.
        """
        from edgeopt.workers.isolated_backend import IsolatedBackends

        check_steady(model)
        with ExitStack() as undone:
            folder = temporary_folder("proof")
            undone.enter_context(folder)
            isolated = undone.enter_context(closing(IsolatedBackends()))
            check = cls._of(
                model, data, shapes or {}, floor_db, isolated, folder, padded=padded, pictures=pictures
            )
            undone.pop_all()
        return check

    @classmethod
    def _of(  # noqa: PLR0913 - one call
        cls,
        model: "Model",
        data: Path | None,
        shapes: "Mapping[str, tuple[int, ...]]",
        floor_db: float,
        isolated: "IsolatedBackends",
        folder: "tempfile.TemporaryDirectory[str]",
        *,
        padded: bool,
        pictures: "Data | None",
    ) -> "SourceCheck":
        backends = tuple(in_full_precision(isolated.of(backend)) for backend in proof_backends())
        path = model.path
        if plain := _bytes(model) <= LARGE_BYTES and has_other_outputs(path):
            write_with_tensors(path, Path(folder.name) / "plain.onnx")
            path = Path(folder.name) / "plain.onnx"
        opened = first_opened(path, backends)
        inputs = taken_inputs(model, opened.inputs, shapes)
        feeds = ordinary_samples(model, inputs, data, pictures)
        extra: Feeds = []
        if padded:
            from edgeopt.measure.exactness.inputs import padded_cases

            extra = padded_cases(model.ir, feeds[0])

        what = "the samples in --data" if data is not None else "made-up samples"
        try:
            check = cls.on(Source(model.ir, path), opened, inputs, feeds, extra, backends, folder, edges=True)
        except ModelError as error:
            raise VerificationError(
                f"The source model does not run on {what}: {error.message}",
                "Give samples that fit with --data.",
            ) from error
        others = () if _bytes(model) > LARGE_BYTES else also_loading(path, check.backend, isolated)
        check = replace(check, others=others, floor_db=floor_db, isolated=isolated, plain=plain)
        check.prove_in(others)
        return check

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
        """Runs the source on ordinary samples, on extra ones, and on distributions made from the first sample.

        `opened`: the source in the first runtime that loads it; this method closes it. `edges`: includes NaN,
        infinite and empty inputs, which can crash a runtime in this process. Raises ModelError if no runtime
        runs the source on the samples.
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
            ordinary=tuple(Answered(DistributionCase("", feeds), answer) for feeds, answer in pairs),
            regimes=tuple(one for one in known if not one.case.at_edge),
            edges=tuple(one for one in known if one.case.at_edge),
            left_out=tuple(left),
            padded_count=len(extra),
            source=source,
            folder=folder or temporary_folder("proof"),
        )

    def prove_in(self, backends: "tuple[Backend, ...]") -> None:
        """Adds a comparison in each of these runtimes that runs the source and agrees with this one about it."""
        for backend in backends:
            found = self._in(backend)
            if isinstance(found, SourceCheck):
                self.elsewhere.append(found)
            else:
                self.not_compared.append(NotCompared(backend.title, found))

    def _in(self, backend: "Backend") -> "SourceCheck | str":
        """Returns the same proof in another runtime, or the reason why there is none.

        Edge inputs (NaN, infinite, empty) are left out: OpenVINO turns NaN into numbers when it fuses.
        """
        from edgeopt.graph.accuracy import compare_outputs

        assert self.source is not None  # noqa: S101 - it was loaded
        try:
            with closing(OpenedModel(self.source.path, in_full_precision(backend))) as opened:
                reference = [opened.run(sample) for sample in self.feeds]
                known, _ = answered(opened, [one.case for one in self.regimes])
        except DiskFullError:
            raise
        except EdgeoptError as error:
            return f"the source does not run there: {error.message.rstrip('.')}"
        agreement = compare_outputs(self.reference, reference)
        if agreement.problem or agreement.snr_db < MIN_AGREEMENT_DB:
            problem = agreement.problem.rstrip(".") if agreement.problem else f"{agreement.snr_db:.1f} dB"
            return f"the source differs there from the source in {self.backend.title}: {problem}"
        judged = {id(one.case): one.answer for one in self.regimes}
        ordinary = zip(self.ordinary, reference, strict=True)
        return replace(
            self,
            backend=opened.backend,
            reference=reference,
            others=(),
            elsewhere=[],
            not_compared=[],
            wrong_in=[],
            seen=[],
            floor_db=min(self.floor_db, agreement.snr_db - 20 * math.log10(TIMES)),
            ordinary=tuple(Answered(one.case, answer, judged=one.answer) for one, answer in ordinary),
            regimes=tuple(replace(one, judged=judged[id(one.case)]) for one in known),
            edges=(),
        )

    @property
    def sample_count(self) -> int:
        return len(self.feeds) - self.padded_count

    def accuracy(self, model_ir: "ir.Model") -> "Accuracy":
        """Returns how closely the results on ordinary samples agree with the source's."""
        return self._seen(model_ir).accuracy

    def _seen(self, model_ir: "ir.Model") -> SeenProof:
        """Saves, runs and compares the model; the same bytes run only once."""
        from edgeopt.graph.accuracy import compare_outputs
        from edgeopt.graph.structure import as_model_takes, as_source_gives

        path = saved(Path(self.folder.name), model_ir, plain=self.plain)
        if not self.seen or self.seen[0].path != path:
            inputs = [as_model_takes(sample, model_ir) for sample in self._samples()]
            found = run_each(path, inputs, self.backend)
            answers = [
                one if one is None or isinstance(one, EdgeoptError) else as_source_gives([one], model_ir)[0]
                for one in found
            ]
            ordinary = answers[: len(self.feeds)]
            failed = next((one for one in ordinary if isinstance(one, EdgeoptError)), None)
            if failed is not None:
                raise failed
            accuracy = compare_outputs(self.reference, [one for one in ordinary if isinstance(one, dict)])
            self.seen[:] = [SeenProof(path, accuracy, answers)]
        return self.seen[0]

    def _samples(self) -> "list[Mapping[str, Any]]":
        return [*self.feeds, *(one.case.feeds for one in (*self.regimes, *self.edges))]

    def error(self, model_ir: "ir.Model") -> "NumericError":
        from edgeopt.graph.pipeline import NumericError

        accuracy = self.accuracy(model_ir)
        return NumericError(accuracy.snr_db, max((output.max_abs for output in accuracy.outputs), default=0.0))

    def why_wrong(self, model_ir: "ir.Model") -> str | None:
        """Returns why a model differs from the source, or None if it does not."""
        self.wrong_in.clear()
        return self._why_wrong_here(model_ir) or self._why_wrong_elsewhere(model_ir)

    def _why_wrong_elsewhere(self, model_ir: "ir.Model") -> str | None:
        for check in tuple(self.elsewhere):
            if (reason := check.why_wrong(model_ir)) is None:
                continue
            if not check.repeats_source():
                self.elsewhere.remove(check)
                why = "the source does not repeat its results there"
                self.not_compared.append(NotCompared(check.backend.title, why))
                continue
            check.why_wrong(model_ir)  # the sample that shows it is that of the model that ran last
            self.wrong_in[:] = [check]
            return f"in {check.backend.title}: {reason}"
        return None

    def repeats_source(self) -> bool:
        """Whether the source itself passes: a runtime may compute a model from uninitialized memory."""
        assert self.source is not None  # noqa: S101 - a proof elsewhere has it
        return self.why_wrong(self.source.model_ir) is None

    def _why_wrong_here(self, model_ir: "ir.Model") -> str | None:
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
        if (problem := self._beyond_rounding(seen)) is not None:
            return problem
        return next((reason for other in self.others if (reason := why_not_loading(seen.path, other))), None)

    def differs_at_edges(self, model_ir: "ir.Model") -> str | None:
        """Describes how a model's answers differ for edge inputs, or returns None if they do not."""
        answers = self._seen(model_ir).answers[len(self.ordinary) + len(self.regimes) :]
        return self._first_difference(self.edges, answers)

    def _beyond_rounding(self, seen: SeenProof) -> str | None:
        known = (*self.ordinary, *self.regimes, *(self.edges if self.strict else ()))
        return self._first_difference(known, seen.answers[: len(known)])

    def _first_difference(
        self, known: Sequence[Answered], answers: "Sequence[Mapping[str, Any] | EdgeoptError | None]"
    ) -> str | None:
        """Names the samples or regime whose values differ by more than rounding, or returns None."""
        found = first_difference(known, answers, self._ask_others)
        if found is None:
            return None
        one, problem = found
        where = f"on inputs of the kind '{one.case.regime}'" if one.case.regime else "on ordinary samples"
        return f"{where} {problem}"

    def _ask_others(self, cases: Sequence[Answered], thoroughly: bool) -> None:
        source = self.source
        if source is None:
            return

        place = Path(self.folder.name)

        def inside() -> Path:
            return written(place, "inside", lambda: with_float_outputs(source.model_ir), plain=self.plain)

        def moved(seed: int) -> Path:
            return written(place, f"moved-{seed}", lambda: moved_model(source.model_ir, seed), plain=self.plain)

        ask_in_other_ways(Ways(self.backend, source.path, inside, moved), cases, thoroughly)

    def close(self) -> None:
        if self.isolated is not None:
            self.isolated.close()
        self.folder.cleanup()


def _bytes(model: "Model") -> int:
    return sum(file.stat().st_size for file in (model.path, *model.external))
