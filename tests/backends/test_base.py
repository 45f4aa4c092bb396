import json
from contextlib import ExitStack, closing
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgeopt.backends import backend_named, null
from edgeopt.backends.base import (
    Available,
    TensorInfo,
    full_precision,
    in_full_precision,
    installed,
    prepare,
    run_all,
)
from edgeopt.errors import DataError, error_text
from edgeopt.events import ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.feeds import generate_feeds
from edgeopt.hw.device import Unavailable
from edgeopt.measure.exactness.runtimes import first_answer, first_opened
from edgeopt.pipeline.context import open_context
from edgeopt.pipeline.inspect import prepare as prepare_search
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns


def test_an_installed_package_tells_its_version():
    import numpy as np

    assert installed("numpy", ("numpy",), "cpu") == Available(np.__version__)


def test_another_distribution_may_bring_the_module():
    assert installed("numpy", ("numpy-gpu", "numpy"), "cpu") == installed("numpy", ("numpy",), "cpu")


def test_a_module_of_no_known_distribution_is_still_there():
    assert installed("numpy", ("numpy-gpu",), "cpu") == Available("unknown")


def test_a_missing_package_names_the_extra():
    state = installed("no_such_runtime", ("no-such-runtime",), "cpu")
    assert isinstance(state, Unavailable)
    assert "no-such-runtime" in state.reason
    assert state.extra == "cpu"


def test_a_folder_of_that_name_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "no_such_runtime").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(installed("no_such_runtime", ("no-such-runtime",), "cpu"), Unavailable)


INPUTS = (TensorInfo("x", "float32", ("batch", 2)), TensorInfo("text", "str", (None,)))


def test_arrays_come_back_in_this_machines_byte_order():
    x = np.ones((1, 2), np.float32)
    arrays = prepare(INPUTS, {"x": x.astype(x.dtype.newbyteorder()), "text": ["a"]})
    assert arrays["x"].dtype.isnative
    assert arrays["x"].tolist() == x.tolist()


def test_only_strings_are_strings():
    feeds = {"x": np.ones((1, 2), np.float32), "text": np.array(["a", None], dtype=object)}
    with pytest.raises(DataError, match="'text' must hold only strings"):
        prepare(INPUTS, feeds)


def test_any_shape_goes_where_the_rank_is_not_known():
    open_rank = (TensorInfo("x", "float32", (), rank_known=False),)
    for shape in ((), (2,), (1, 2, 3)):
        assert prepare(open_rank, {"x": np.ones(shape, np.float32)})["x"].shape == shape


def test_a_runtimes_message_is_told_without_its_source_files():
    error = RuntimeError(
        "Exception from src/inference/core.cpp:84:\nCheck 'false' failed at x.cpp:151:\n"
        "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.\n-- No rule for Foo\n"
    )
    assert error_text(error) == "Model wasn't fully converted. -- No rule for Foo"


def test_an_endless_message_is_cut_and_an_empty_one_named():
    assert len(error_text(RuntimeError("x" * 5000))) == 300
    assert error_text(ValueError()) == "ValueError"


@pytest.fixture
def null_model(tmp_path):
    def write(name, **fields):
        path = tmp_path / f"{name}.null.json"
        inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
        outputs = [{"name": "y", "dtype": "float32", "shape": ["batch", 8]}]
        path.write_text(json.dumps({"inputs": inputs, "outputs": outputs, "behaviour": "mix"} | fields))
        return path

    return write


def test_a_model_agrees_with_itself(null_model):
    path = null_model("source")
    session = null.BACKEND.load(path, {})
    feeds = generate_feeds(session.inputs, None, 3, seed=0)
    assert not isinstance(null.BACKEND.available(), Unavailable)
    answers = run_all(path, feeds, null.BACKEND)
    assert compare_outputs(answers, run_all(path, feeds, null.BACKEND)).snr_db == 200.0


def test_another_model_is_told_apart_by_how_much(null_model):
    source, noisy = null_model("source"), null_model("noisy", noise=0.01)
    feeds = generate_feeds(null.BACKEND.load(source, {}).inputs, None, 3, seed=0)
    accuracy = compare_outputs(run_all(source, feeds, null.BACKEND), run_all(noisy, feeds, null.BACKEND))
    assert 30 < accuracy.snr_db < 50
    assert len(accuracy.outputs[0].noise_power) == 3


needs_openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="the runtime that is told")

X = {"x": np.random.default_rng(1).standard_normal((1, 32)).astype(np.float32)}


@pytest.fixture
def right(swish_model):
    """What the model answers, in double precision."""

    def answer(feeds):
        weight = numpy_helper.to_array(onnx.load(swish_model).graph.initializer[0]).astype(np.float64)
        product = feeds["x"].astype(np.float64) @ weight
        return {"z": product / (1 + np.exp(-product))}

    return answer


@needs_openvino
def test_what_needs_to_be_told_is_told_and_can_be_told_otherwise(swish_model, right):
    backend = in_full_precision(backend_named("openvino-cpu"))
    with closing(backend.load(swish_model, {})) as session:
        assert compare_outputs([right(X)], [session.run(X)]).snr_db > 100
    with closing(backend.load(swish_model, {"precision": "bf16"})) as session:
        assert session.run(X)["z"].shape == (1, 32)
    assert full_precision("onnxruntime-cpu") == {}


@needs_openvino
def test_a_proof_of_rewrites_stands_on_full_precision(swish_model, right):
    opened, (answer,) = first_answer(first_opened(swish_model), [X])
    opened.close()
    assert opened.backend.name == "openvino-cpu"
    assert compare_outputs([right(X)], [answer]).snr_db > 100


@needs_openvino
def test_so_does_what_quantization_is_held_against(swish_model, right):
    with ModelRuns() as runs:
        runs.inputs(swish_model)
        (answer,) = runs.source_outputs(swish_model, [X])
    assert runs.judge == "openvino-cpu"
    assert compare_outputs([right(X)], [answer]).snr_db > 100


@needs_openvino
def test_so_does_the_reference_of_a_search(swish_model, right, tmp_path):
    profile = tmp_path / "openvino.toml"
    profile.write_text(
        'name = "openvino"\ntitle = "x"\nextends = "generic-cpu"\n[backends]\norder = ["openvino-cpu"]\n'
        '[precision]\nladder = ["source"]\n'
    )
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32))
    (tmp_path / "work").mkdir()
    settings = OptimizeRequest(swish_model, tmp_path / "out.edgeopt", profile=profile, data=tmp_path / "data.npz")
    with ExitStack() as stack:
        prepared, _ = prepare_search(settings, open_context(tmp_path / "work", stack, ignore), stack)
        reference = prepared.reference
        expected = [right(prepared.data.samples.feeds(k)) for k in reference.split.check]
    assert compare_outputs(expected, reference.outputs).snr_db > 100
