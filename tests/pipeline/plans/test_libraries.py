import numpy as np
import pytest

from edgeopt.bundle.deployment import Step
from edgeopt.data.samples import Samples
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.pipeline.plans.libraries import NNCF_REPAIRED, NNCF_TRANSFORMER, NNCF_WEIGHTS, repair_limit_s
from edgeopt.quant.records import QuantSettings

FLOOR_DB = 40.0


@pytest.fixture
def task(conv_model, conv_data, tmp_path):
    """The build of a recipe, with nothing that another recipe left."""
    pytest.importorskip("nncf")
    with np.load(conv_data) as archive:
        x = archive["x"]

    def lay_out(recipe):
        out = tmp_path / "variants" / recipe / "model.xml"
        out.parent.mkdir(parents=True)
        checking, calibrating = (Samples({"x": part}, {"x": 4}) for part in (x[16:24], x[:16]))
        parts = (conv_model, conv_model, out, checking, calibrating, QuantSettings(), Step(recipe))
        return BuildTask(*parts, repair_floor_db=FLOOR_DB)

    return lay_out


@pytest.mark.parametrize("after", [True, False], ids=["after NNCF's own variant", "that came from the cache"])
def test_a_model_is_repaired_with_and_without_the_variant_before_it(task, after):
    if after:
        NNCF_TRANSFORMER.make(task("nncf-transformer"))
    repaired = task("nncf-repaired")
    (entry,) = NNCF_REPAIRED.make(repaired)
    assert entry.snr_db > FLOOR_DB
    # A bundle takes all files beside a model.
    assert {file.name for file in repaired.out.parent.iterdir()} == {"model.xml", "model.bin"}


def test_a_repair_of_a_small_model_leaves_time_for_a_plan():
    assert [repair_limit_s(size) for size in (1_000, 10_000_000, 20_000_000, 90_000_000)] == [10, 10, 17.5, 25]


@pytest.mark.parametrize(
    ("operators", "reason"),
    [
        ({"TreeEnsembleClassifier": 1}, "the model has no matrix products"),
        ({"Conv": 9}, "the model has no matrix products"),
        ({"Conv": 9, "Gemm": 1}, "the model has only 1 matrix product beside 9 convolutions"),
        ({"Conv": 1, "MatMul": 1}, "the model has only 1 matrix product beside 1 convolution"),
        ({"Conv": 1, "MatMul": 1, "Gemm": 1}, ""),
        ({"MatMul": 1}, ""),
    ],
)
def test_reason_against_quantized_weights_fits_the_model(operators, reason):
    assert NNCF_WEIGHTS.unsuited(operators) == reason
