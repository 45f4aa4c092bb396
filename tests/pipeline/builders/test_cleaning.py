from contextlib import closing
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import in_full_precision
from edgeopt.bundle.deployment import Step
from edgeopt.bundle.runtime.session import load
from edgeopt.data.samples import Samples
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.ledger import Change
from edgeopt.graph.passes.base import Pass, PassResult
from edgeopt.graph.passes.knowledge.forms import take_place
from edgeopt.measure.exactness.proof import FLOOR_DB
from edgeopt.pipeline.builders.cleaning import apply_proved_passes, clean
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.quant.records import QuantSettings


@pytest.fixture
def task(tmp_path):
    def lay_out(model, shape, passes=None):
        samples = Samples({"x": np.random.default_rng(0).random((3, *shape), np.float32)}, {"x": len(shape) + 1})
        return BuildTask(
            model,
            model,
            tmp_path / "clean.onnx",
            samples,
            None,
            QuantSettings(),
            Step("cleaned", {"passes": list(passes or ())}),
        )

    return lay_out


def test_the_cleaned_model_is_smaller_and_answers_the_same(conv_model, task):
    work = task(conv_model, (3, 16, 16))
    before = conv_model.read_bytes()
    ledger = clean(work)
    assert any(entry.applied for entry in ledger)
    assert "Identity" not in {node.op_type for node in onnx.load(work.out).graph.node}
    feeds = [work.check_samples.feeds(k) for k in range(3)]
    answers = []
    for path in (conv_model, work.out):
        with load(path) as session:
            answers.append([session.run(f) for f in feeds])
    assert compare_outputs(*answers).snr_db >= FLOOR_DB
    assert conv_model.read_bytes() == before
    assert [p.name for p in work.out.parent.iterdir()] == ["clean.onnx"]


def test_only_the_passes_of_the_profile_are_tried(conv_model, task):
    ledger = clean(task(conv_model, (3, 16, 16), ("fold-constants",)))
    assert [entry.pass_name for entry in ledger] == ["fold-constants"]


def test_nothing_to_clean_is_said(relu_model, task):
    with pytest.raises(ModelError, match="No exact rewrite applies"):
        clean(task(relu_model, (4,)))


def test_a_model_that_no_runtime_runs(tmp_path, task):
    node = onnx.helper.make_node("Toast", ["x"], ["y"], domain="task")
    ports = [onnx.helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("task", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "toast.onnx")
    with pytest.raises(ModelError, match="No installed runtime can run the model"):
        clean(task(tmp_path / "toast.onnx", (4,)))


def gather(model, context):
    """The shuffle as one Gather, which OpenVINO moves into the weights of the convolution in the wrong order."""
    copy = context.copy(model)
    graph, last = copy.graph, next(node for node in copy.graph if node.outputs[0].name == "s")
    order = ir.tensor(np.arange(16).reshape(2, 8).T.reshape(-1), name="order")
    weight = graph.register_initializer(ir.Value(name="order", const_value=order)) or graph.initializers["order"]
    take_place(graph, last, ir.node("Gather", [graph[1].outputs[0], weight], {"axis": 1}))
    return PassResult(copy, (Change("shuffled by one Gather"),))


SHUFFLE = Pass("gather", "the shuffle as one Gather", gather)


@pytest.mark.parametrize("backends", [(), ("openvino-cpu",), ("onnxruntime-cpu",)])
def test_a_pass_whose_result_differs_in_openvino_stays_for_onnxruntime_alone(shuffle_model, task, backends):
    pytest.importorskip("openvino", reason="a fault of OpenVINO")
    work = replace(task(shuffle_model, (3, 16, 16)), backends=backends)
    (*_, entry) = apply_proved_passes(work, shuffle_model, passes=(SHUFFLE,), rounds=1)
    if backends == ("onnxruntime-cpu",):
        assert entry.applied
        assert entry.rolled_back is None
    else:
        assert entry.rolled_back.startswith("rolled back: it changes the results (in OpenVINO, CPU: ")
        assert "dB against the source" in entry.rolled_back
        assert not work.out.exists()


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_a_cleaned_detector_with_shuffles_answers_the_same_in_each_runtime(shuffle_detector, tmp_path, backend):
    pytest.importorskip(backend.partition("-")[0], reason="one of the runtimes")
    images = np.random.default_rng(1).standard_normal((3, 3, 64, 64)).astype(np.float32)
    samples = Samples({"image": images}, {"image": 4})
    work = BuildTask(
        shuffle_detector,
        shuffle_detector,
        tmp_path / "clean.onnx",
        samples,
        None,
        QuantSettings(),
        Step("cleaned"),
    )
    assert any(entry.applied for entry in clean(work))
    answers = []
    for path in (shuffle_detector, work.out):
        with closing(in_full_precision(backend_named(backend)).load(path, {})) as session:
            answers.append([session.run(samples.feeds(k)) for k in range(3)])
    spread = float(np.std(answers[0][0]["boxes"]))
    assert 0.01 < spread < 100  # else rounding would say nothing
    assert compare_outputs(*answers).snr_db >= FLOOR_DB
