"""The inputs, samples and labels of a request, and the runs of models on them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.backends.base import Array, Available, Backend, Options, TensorInfo, full_precision
from edgeopt.bundle.processing.attach import pictures_for
from edgeopt.data.judging.metric import Labels
from edgeopt.data.levels import Levels, alike_inputs
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.data.split import SampleLimits, limits_for, split
from edgeopt.errors import DataError, EdgeoptError, MissingExtraError, ModelError, VerificationError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.platform.command_line import quote_word
from edgeopt.profiles.schema import Data
from edgeopt.quant.checks import check_data
from edgeopt.quant.measured.records import QuantizeRequest, SampleUse
from edgeopt.workers.isolated_backend import IsolatedBackends

# The number of ordinary samples for planning, and again for proving; each set also has one sample of each other
# input distribution.
_GENERATED = 8
# Shorter than in a search: fewer candidates are judged, and counted answers choose between layers.
_CHECKING_S = 2.0


@dataclass(frozen=True, slots=True)
class SampleSets:
    """The samples in their order: for calibration, for planning and, at the end, for the proof."""

    inputs: tuple[TensorInfo, ...]
    samples: Samples
    labels: Labels | None
    calibrate: range
    plan: range
    prove: range
    use: SampleUse
    levels: Levels
    warnings: tuple[str, ...] = ()

    def feeds(self, which: Sequence[int]) -> list[dict[str, Array]]:
        return [self.samples.feeds(k) for k in which]

    @property
    def judged(self) -> list[int]:
        """Returns the samples that plan or prove, whose outputs are compared with the source's."""
        return sorted({*self.plan, *self.prove})

    def labels_of(self, which: range) -> Labels | None:
        return None if self.labels is None else self.labels[which.start : which.stop]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each input in a run."""
        return {name: tuple(shape) for name, shape in self.samples.shapes().items()}


def read_samples(
    request: QuantizeRequest,
    inputs: tuple[TensorInfo, ...],
    preparation: Data | None,
    calibrates: bool,
    runs: "ModelRuns | None" = None,
) -> SampleSets:
    """Reads and splits samples and labels, or generates inputs if there is no data; raises a DataError before any
    long work.

    `runs` times the source, so that more samples prove where runs are short.
    """
    data, metric = request.data, request.goal.kind
    if data is None:
        return _made_up(request, inputs)
    from edgeopt.data.judging.metrics import labels_for, spread_samples

    samples = load_data(data, inputs, pictures_for(request.pre) or preparation)
    warnings = check_data(samples) if calibrates else ()
    warnings += (*samples.converted, *(one.warning for one in alike_inputs(samples)))
    labels = labels_for(metric, data, samples, request.labels)
    order = spread_samples(data, samples, request.labels)
    samples, labels = samples.taken(order), labels[order] if labels is not None else None
    run_ms = runs.run_ms(request.model, samples.feeds(0)) if runs is not None else 0.0
    limits = limits_for(metric, run_ms, _CHECKING_S)
    calibrate, plan, prove, shared = _shares(len(samples), limits, request.samples)
    use = SampleUse(len(samples), len(calibrate), len(plan), len(prove), shared=shared)
    return SampleSets(inputs, samples, labels, calibrate, plan, prove, use, Levels(samples), warnings)


def _shares(count: int, limits: SampleLimits, max_to_calibrate: int | None) -> tuple[range, range, range, bool]:
    """Returns the calibration, planning and proof samples, and whether some samples have two uses."""
    found = split(count, from_user=True, limits=limits)
    if not found.calibration_count or found.is_shared:
        half = max(1, count // 2)
        return range(min(half, max_to_calibrate or half)), range(count), range(count // 2, count), True
    calibrate = min(found.calibration_count, max_to_calibrate or found.calibration_count)
    return range(calibrate), found.check, found.prove, False


def _made_up(request: QuantizeRequest, inputs: tuple[TensorInfo, ...]) -> SampleSets:
    from edgeopt.data.regimes import mixed
    from edgeopt.graph.model import load

    if request.goal.kind.needs_labels:
        raise DataError(
            f"The metric '{request.goal.metric}' needs labels.", "Give data that has them, with --data."
        )
    model = load(request.model).ir
    plan, prove = (mixed(inputs, model, _GENERATED, seed) for seed in (0, 1))
    samples = check_samples(from_feeds([*plan, *prove]), inputs, "what was made up")
    half, count = len(plan), len(plan) + len(prove)
    use = SampleUse(count, 0, half, count - half, generated=True)
    return SampleSets(inputs, samples, None, range(0), range(half), range(half, count), use, Levels(samples))


def narrowed(inputs: tuple[TensorInfo, ...], shapes: Mapping[str, tuple[int, ...]]) -> tuple[TensorInfo, ...]:
    """Returns the inputs with the shapes that the user fixes."""
    return tuple(
        msgspec.structs.replace(info, shape=shapes[info.name], rank_known=True) if info.name in shapes else info
        for info in inputs
    )


"""Backends in order of preference: the first that runs the source model computes the reference outputs. An
accelerator is not among them because it may compute in fewer bits by default."""
# Two runs of one model in one runtime differ at most by the order in which threads add: 100 dB and more.
_ALIKE_DB = 80.0

Outputs = list[dict[str, Array]]


class ModelRuns:
    """Runs models in worker processes; a context manager that ends the processes."""

    def __init__(self) -> None:
        self._isolated = IsolatedBackends()
        self._judge: Backend | None = None
        self._ports: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]] = ((), ())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._isolated.close()

    def outputs(self, path: Path, backend: str, options: Options, feeds: Sequence[Mapping[str, Array]]) -> Outputs:
        """Returns a model's outputs for each feed; raises an EdgeoptError if the runtime cannot run it."""
        session = self._isolated.of(backend_named(backend)).load(path, options)
        try:
            return [dict(session.run(each)) for each in feeds]
        finally:
            session.close()

    def run_ms(self, path: Path, feeds: Mapping[str, Array]) -> float:
        """Returns the time of the second run of the source on one sample."""
        session = self._isolated.of(backend_named(self.judge)).load(path, full_precision(self.judge))
        try:
            session.run(feeds)
            begin_s = time.perf_counter()
            session.run(feeds)
            return 1e3 * (time.perf_counter() - begin_s)
        finally:
            session.close()

    def inputs(self, path: Path) -> tuple[TensorInfo, ...]:
        """Returns the inputs of a model and selects the first runtime of PROCESSOR that loads it as the judge."""
        reasons, missing = [], []
        for name in PROCESSOR:
            backend = backend_named(name)
            state = backend.available()
            if not isinstance(state, Available):
                missing.append(state.extra or name)
                continue
            try:
                session = self._isolated.of(backend).load(path, {})
            except EdgeoptError as error:
                reasons.append(error.message)
                continue
            try:
                self._judge = backend
                self._ports = tuple(session.inputs), tuple(session.outputs)
                return self._ports[0]
            finally:
                session.close()
        if not reasons:
            raise MissingExtraError(missing[0] if missing else "cpu", "Quantizing a model")
        raise ModelError(
            f"No installed runtime can load the model. {' '.join(reasons)}",
            f"Check it with: edgeopt analyze {quote_word(str(path))}",
        )

    @property
    def ports(self) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
        """The inputs and outputs of the source model; empty before `inputs` was called."""
        return self._ports

    @property
    def judge(self) -> str:
        assert self._judge is not None  # noqa: S101 - `inputs` comes first
        return self._judge.name

    def reference(self, path: Path, sets: SampleSets) -> dict[int, dict[str, Array]]:
        """Returns the source model's outputs on the samples that plan or prove, by sample."""
        return dict(zip(sets.judged, self.source_outputs(path, sets.feeds(sets.judged)), strict=True))

    def source_outputs(self, path: Path, feeds: Sequence[Mapping[str, Array]]) -> Outputs:
        """Returns the source model's outputs; raises a VerificationError if two equal runs differ."""
        # Both runs use one session: a runtime may begin with the same random seed each time that it loads a model.
        found = self.outputs(path, self.judge, full_precision(self.judge), [*feeds, *feeds[:2]])
        first, again = found[: len(feeds)], found[len(feeds) :]
        steady = compare_outputs(first[:2], again)
        if steady.problem or steady.snr_db < _ALIKE_DB:
            raise VerificationError(
                f"Two runs on the same inputs differ ({steady.snr_db:.1f} dB), so variants of the model "
                "cannot be checked.",
                "Remove the random operators or fix their seeds, then export the model again.",
            )
        return first
