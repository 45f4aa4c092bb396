"""What the user gave: the model's inputs, the samples, the labels, and which sample does what."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.judging.metric import Labels
from edgeopt.data.levels import Levels, alike_inputs
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.data.split import split
from edgeopt.errors import DataError
from edgeopt.profiles.schema import Data
from edgeopt.quant.checks import check_data
from edgeopt.quant.measured.records import QuantizeRequest, SampleUse

# Ordinary samples that plan, and as many that prove; each set also has one of each common input distribution.
_GENERATED = 8


@dataclass(frozen=True, slots=True)
class Given:
    """The samples in their order: those that calibrate, those that plan, and at the end those that prove."""

    inputs: tuple[TensorInfo, ...]
    samples: Samples
    labels: Labels | None
    calibrate: range
    plan: range
    prove: range
    use: SampleUse
    levels: Levels
    warnings: tuple[str, ...] = ()

    def feeds(self, which: range) -> list[dict[str, Array]]:
        return [self.samples.feeds(k) for k in which]

    def labels_of(self, which: range) -> Labels | None:
        return None if self.labels is None else self.labels[which.start : which.stop]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of each input in a run."""
        return {name: tuple(shape) for name, shape in self.samples.shapes().items()}


def read_given(
    request: QuantizeRequest, inputs: tuple[TensorInfo, ...], preparation: Data | None, calibrates: bool
) -> Given:
    """Raises DataError, with one sentence, before any long work; without data, inputs are made up."""
    data, goal = request.data, request.goal
    if data is None:
        return _made_up(request, inputs)
    from edgeopt.data.judging.metrics import labels_for

    samples = load_data(data, inputs, preparation)
    warnings = check_data(samples) if calibrates else ()
    warnings += (*samples.converted, *(one.warning for one in alike_inputs(samples)))
    found = labels_for(goal.kind, data, samples, request.labels)
    calibrate, plan, prove, shared = _shares(len(samples), goal.kind.most_samples, request.samples)
    use = SampleUse(len(samples), len(calibrate), len(plan), len(prove), shared=shared)
    return Given(inputs, samples, found, calibrate, plan, prove, use, Levels(samples), warnings)


def _shares(count: int, most: int, most_to_calibrate: int | None) -> tuple[range, range, range, bool]:
    """Who calibrates, plans and proves, and whether some do two of these."""
    found = split(count, given=True)
    if not found.calibration_count or found.is_shared:
        half = max(1, count // 2)
        return range(min(half, most_to_calibrate or half)), range(count), range(count // 2, count), True
    calibrate = min(found.calibration_count, most_to_calibrate or found.calibration_count)
    left = count - found.calibration_count
    prove = max(found.prove_count, min(left // 2, most))
    first = found.check_first
    plan = min(count - prove - first, max(found.check_count, most))
    return range(calibrate), range(first, first + plan), range(count - prove, count), False


def _made_up(request: QuantizeRequest, inputs: tuple[TensorInfo, ...]) -> Given:
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
    return Given(inputs, samples, None, range(0), range(half), range(half, count), use, Levels(samples))


def narrowed(inputs: tuple[TensorInfo, ...], shapes: Mapping[str, tuple[int, ...]]) -> tuple[TensorInfo, ...]:
    """The inputs with the shapes that the user fixes."""
    return tuple(
        msgspec.structs.replace(info, shape=shapes[info.name], rank_known=True) if info.name in shapes else info
        for info in inputs
    )
