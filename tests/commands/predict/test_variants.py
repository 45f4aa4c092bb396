"""A variant is held against the floor on the level of input where it is farthest from the source."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.commands.predict.variants import PredictedVariant, PredictionContext, judge
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples
from edgeopt.pipeline.outcome import Candidate
from edgeopt.quant.measured.records import SampleUse
from edgeopt.quant.measured.sample_sets import SampleSets
from edgeopt.quant.measured.study import Known, LayerMeasurements
from edgeopt.quant.records import QuantSettings

QUIET = 3


class Apart(PredictionContext):
    """One whose variants answer as the source does, but for a constant."""

    def outputs(self, made, which):
        return [{"y": answer["y"] + np.float32(made.path.name)} for answer in self.study.reference_of(which)]


@pytest.fixture
def bench():
    """The source answers with its input, of which the last samples are a hundredth as loud."""
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    x[-QUIET:] *= np.float32(0.01)
    samples = Samples({"x": x}, {"x": 2})
    none, every, use = range(0), range(8), SampleUse(8, 0, 8, 0)
    sample_sets = SampleSets((), samples, None, none, every, none, use, Levels(samples))
    reference = {k: {"y": samples.feeds(k)["x"]} for k in every}
    study = LayerMeasurements(Path(), None, sample_sets, reference, Known((), QuantSettings()))
    return Apart(study, None, 30.0, None, None)


@pytest.mark.parametrize(("error", "below"), [(1e-4, False), (2e-3, True)])
def test_the_weakest_level_decides(bench, error, below):
    made = PredictedVariant(Candidate("int8", "onnxruntime-cpu"), Path(str(error)))
    judge(bench, made)
    assert made.below is below
    assert ("on the 3 samples at 0.0" in made.failure) is below
    assert made.accuracy_db == pytest.approx(-20 * np.log10(error / 0.01), abs=2)


def test_what_cannot_be_compared_has_a_reason_and_no_accuracy(bench):
    made = PredictedVariant(Candidate("int8", "onnxruntime-cpu"), Path("nan"))
    judge(bench, made)
    assert "not finite" in made.failure
    assert not made.below
    assert made.accuracy_db is None
