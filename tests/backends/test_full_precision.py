"""Where OpenVINO says what is right, it computes in float32; processors with bf16 would not by themselves."""

from contextlib import ExitStack, closing

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgeopt.backends import backend_named
from edgeopt.backends.base import full_precision, in_full_precision
from edgeopt.events import ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.exactness.runtimes import first_answer, first_opened
from edgeopt.quant.measured.runs import Runs
from edgeopt.search.place import placed
from edgeopt.search.prepare import prepare
from edgeopt.search.settings import Settings

pytest.importorskip("openvino", reason="the runtime that is told")

X = {"x": np.random.default_rng(1).standard_normal((1, 32)).astype(np.float32)}


@pytest.fixture
def right(swish_model):
    """What the model answers, in double precision."""

    def answer(feeds):
        weight = numpy_helper.to_array(onnx.load(swish_model).graph.initializer[0]).astype(np.float64)
        product = feeds["x"].astype(np.float64) @ weight
        return {"z": product / (1 + np.exp(-product))}

    return answer


def test_what_needs_to_be_told_is_told_and_can_be_told_otherwise(swish_model, right):
    backend = in_full_precision(backend_named("openvino-cpu"))
    with closing(backend.load(swish_model, {})) as session:
        assert compare_outputs([right(X)], [session.run(X)]).snr_db > 100
    with closing(backend.load(swish_model, {"precision": "bf16"})) as session:
        assert session.run(X)["z"].shape == (1, 32)
    assert full_precision("onnxruntime-cpu") == {}


def test_a_proof_of_rewrites_stands_on_full_precision(swish_model, right):
    opened, (answer,) = first_answer(first_opened(swish_model), [X])
    opened.close()
    assert opened.backend.name == "openvino-cpu"
    assert compare_outputs([right(X)], [answer]).snr_db > 100


def test_so_does_what_quantization_is_held_against(swish_model, right):
    with Runs() as runs:
        runs.inputs(swish_model)
        (answer,) = runs.source_outputs(swish_model, [X])
    assert runs.judge == "openvino-cpu"
    assert compare_outputs([right(X)], [answer]).snr_db > 100


def test_so_does_the_reference_of_a_search(swish_model, right, tmp_path):
    profile = tmp_path / "openvino.toml"
    profile.write_text(
        'name = "openvino"\ntitle = "x"\nextends = "generic-cpu"\n[backends]\norder = ["openvino-cpu"]\n'
        '[precision]\nladder = ["source"]\n'
    )
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32))
    (tmp_path / "work").mkdir()
    settings = Settings(swish_model, tmp_path / "out.edgeopt", profile=profile, data=tmp_path / "data.npz")
    with ExitStack() as stack:
        prepared, _ = prepare(settings, placed(tmp_path / "work", stack, ignore), stack)
        standard = prepared.standard
        data = np.load(tmp_path / "data.npz")["x"]
        wanted = [right({"x": data[k : k + 1]}) for k in standard.split.check]
    assert compare_outputs(wanted, standard.reference).snr_db > 100
