import pytest

from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import MissingExtraError, ModelError
from edgeopt.measure.host import LocalHost
from edgeopt.search.racing.baseline import baseline_order, first_running, judge_for, plain
from edgeopt.search.racing.ground import Ground
from tests.conftest import seeded


@pytest.fixture
def ground(tmp_path):
    save_samples(Samples({"x": seeded(4, 1, 8)}, {"x": 2}), tmp_path / "samples")
    return Ground(LocalHost(tmp_path), tmp_path, tmp_path / "samples")


def test_the_processor_judges_what_accelerators_answer():
    order = ("onnxruntime-cuda", "openvino-gpu", "openvino-cpu", "onnxruntime-cpu")
    assert baseline_order(order) == ["onnxruntime-cpu", "openvino-cpu", "onnxruntime-cuda", "openvino-gpu"]


def test_the_baseline_is_the_source_with_defaults(ground, null_model):
    found = first_running(ground, null_model("m"), ["null"])
    try:
        assert found.candidate == plain("null")
        assert (found.candidate.name, found.candidate.options) == ("source · null", {})
        with judge_for(ground, found.contender, "null", null_model("m")) as judge:
            assert judge is found.contender
    finally:
        found.contender.close()


def test_where_no_runtime_runs_it_each_says_why(ground, null_model):
    with pytest.raises(ModelError, match=r"No installed runtime can run the model\. null: .*should load"):
        first_running(ground, null_model("m", fail="load"), ["null"])


def test_where_no_runtime_is_here_it_says_what_to_install(ground, null_model):
    with pytest.raises(MissingExtraError, match="Optimizing a model"):
        first_running(ground, null_model("m"), ["onnxruntime-coreml"])
