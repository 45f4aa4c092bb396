import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.events import ignore
from edgeopt.search.optimize import optimize
from tests.conftest import limited


def test_arrays_from_python_under_any_name(tmp_path, models, quick_profile):
    import onnx

    node = onnx.helper.make_node("Relu", ["file"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in ("file", "y")]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    data = {"file": np.ones((2, 4), np.float32)}
    with pytest.raises(DataError, match="'file'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data={"x": data["file"]}, profile=quick_profile)
    # The target is looked at after the data, so these were good.
    with pytest.raises(UsageError, match="no target 'nowhere'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data=data, target="nowhere")


def test_texts_and_shapes_that_depend_on_the_sample(tmp_path, quick_profile):
    import onnx
    import onnx.parser

    text = "g (string[n] s, float[n] x) => (string[n] t, int64[1, m] y) { t = Identity(s) y = NonZero(x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "m.onnx")
    data = {"s": np.array([["a", "bc"]] * 8), "x": np.float32([[k % 2, 1] for k in range(8)])}
    out = tmp_path / "o.edgeopt"
    optimize(tmp_path / "m.onnx", out, data=data, profile=quick_profile, time_limit_s=1.0)
    assert {run["y"].shape for run in read_bundle(out).golden("outputs")} == {(1, 1), (1, 2)}
    assert check(out, ignore).accuracy_db == 200


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"out": "notes"}, UsageError, "is not a bundle"),
        ({"floor": "loud"}, UsageError, "not an accuracy floor"),
        ({"model": "nowhere.onnx"}, ModelError, "nowhere"),
    ],
)
def test_wrong_arguments_are_said_before_any_work(tmp_path, relu_model, options, error, says):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    said = []
    given = {"model": relu_model, "out": "out.edgeopt", **options}
    with pytest.raises(error, match=says):
        optimize(tmp_path / given.pop("model"), tmp_path / given.pop("out"), emit=said.append, **given)
    assert len(said) <= 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]
    assert (tmp_path / "notes/mine.txt").read_text() == "mine"


def test_a_model_that_draws_random_numbers_cannot_be_checked_and_is_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { r = RandomNormalLike(x)  y = Add(x, r) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "random.onnx")
    with pytest.raises(ModelError, match="Two runs on the same inputs differ"):
        optimize(tmp_path / "random.onnx", tmp_path / "out.edgeopt", time_limit_s=5)
    assert not (tmp_path / "out.edgeopt").exists()


def test_types_that_numpy_does_not_know_are_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (bfloat16[4] y) { y = Cast <to = 16> (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "brain.onnx")
    with pytest.raises(ModelError, match="bfloat16"):
        optimize(tmp_path / "brain.onnx", tmp_path / "out.edgeopt", time_limit_s=5)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_none(tmp_path, seconds):
    with pytest.raises(UsageError, match="--time-limit must be"):
        optimize(tmp_path / "m.onnx", tmp_path / "out.edgeopt", time_limit_s=seconds)


def test_a_profile_limits_how_many_take_part(relu_model, tmp_path, quick_profile):
    few = tmp_path / "few.toml"
    few.write_text(limited(quick_profile.read_text(), 1, 3))
    outcome = optimize(relu_model, tmp_path / "out.edgeopt", profile=few)
    made = [variant.name for variant in outcome.variants if not variant.failure]
    assert [report.candidate.variant for report in outcome.candidates] == made
    assert all(report.candidate.options == {} for report in outcome.candidates)
