"""Groups of quantizers: what is switched together, and that switches and files compute the same."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.backends.openvino.model import read_model
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.libraries import quantized_by_nncf, write_quantized
from edgeopt.quant.quantizer_groups import GatedQuantizers, find_groups, without
from tests.quant.test_repair import accuracy_db, layers_in_eight_bits, repaired

pytestmark = pytest.mark.processes


def save(path, nodes, constants, inputs, outputs):
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def branching(tmp_path_factory):
    """Two inputs of open batch; `left` and `right` read the same tensor, `last` reads both joined."""
    random = np.random.default_rng(4)

    def weights(*shape):
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    def conv(name, source, out):
        return helper.make_node("Conv", [source, f"{name}_w", f"{name}_b"], [out], name=name, pads=[1] * 4)

    constants = {"scale": np.array([0.5], np.float32)}
    for name, channels in (("first", 3), ("left", 8), ("right", 8), ("last", 16)):
        constants[f"{name}_w"] = weights(8, channels, 3, 3)
        constants[f"{name}_b"] = weights(8, 4)[:, 0]
    nodes = [
        helper.make_node("Mul", ["more", "scale"], ["half"], name="half"),
        helper.make_node("Add", ["x", "half"], ["sum"], name="sum"),
        conv("first", "sum", "a"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        conv("left", "b", "l"),
        conv("right", "b", "r"),
        helper.make_node("Concat", ["l", "r"], ["joined"], name="joined", axis=1),
        conv("last", "joined", "y"),
    ]
    path = tmp_path_factory.mktemp("branching") / "model.onnx"
    ports = [(name, TensorProto.FLOAT, ["n", 3, 12, 12]) for name in ("x", "more")]
    return save(path, nodes, constants, ports, [("y", ["n", 8, 12, 12])])


@pytest.fixture(scope="module")
def feeds():
    random = np.random.default_rng(6)
    return [
        {name: random.standard_normal((1, 3, 12, 12)).astype(np.float32) for name in ("x", "more")}
        for _ in range(16)
    ]


@pytest.fixture(scope="module")
def quantized(branching, feeds):
    return quantized_by_nncf(read_model(branching), feeds[:8], transformer=False, reduce_range=True)


@pytest.fixture(scope="module")
def groups(quantized, branching, feeds):
    shapes = {name: array.shape for name, array in feeds[0].items()}
    return find_groups(quantized, read_model(branching), shapes)


def test_readers_of_one_quantizer_return_on_their_own(quantized, groups, tmp_path):
    [left] = [group for group in groups if group.names == ("left",)]
    write_quantized(without(quantized, [left]), tmp_path / "out.xml", "some", 0)
    assert layers_in_eight_bits(tmp_path / "out.xml") == {"first", "right", "last"}


def test_work_is_shared_out_by_operation(groups):
    cost = {name: group.cost for group in groups for name in group.names}
    assert cost["last"] > cost["left"] > cost["first"]
    assert cost["left"] == pytest.approx(cost["right"])
    assert 0.8 < sum(group.cost for group in groups) <= 1.1


def test_everything_returned_is_the_float_model(quantized, groups, branching, feeds, tmp_path):
    from openvino import save_model

    save_model(without(quantized, groups), tmp_path / "out.xml", compress_to_fp16=False)
    assert accuracy_db(branching, tmp_path / "out.xml", feeds) > 110


@pytest.mark.parametrize("name", ["first", "left", "last"])
def test_switches_compute_what_the_file_does(name, quantized, groups, feeds, tmp_path, branching):
    kept = frozenset(place for place, group in enumerate(groups) if name in group.names)
    returned = frozenset(range(len(groups))) - kept
    write_quantized(without(quantized, [groups[each] for each in returned]), tmp_path / "out.xml", "some", 0)
    gated = GatedQuantizers(quantized, groups)
    everything = [gated.run(each, frozenset(range(len(groups)))) for each in feeds]
    noisy = compare_outputs(everything, [gated.run(each, returned) for each in feeds]).snr_db
    assert noisy == pytest.approx(accuracy_db(branching, tmp_path / "out.xml", feeds), abs=1.5)


def test_recurrent_layers_are_switched_or_refused_with_a_reason(tmp_path):
    random = np.random.default_rng(1)
    constants = {
        "w": (0.3 * random.standard_normal((1, 64, 8))).astype(np.float32),
        "r": (0.3 * random.standard_normal((1, 64, 16))).astype(np.float32),
        "head": (0.3 * random.standard_normal((16, 8))).astype(np.float32),
        "back": (0.3 * random.standard_normal((8, 8))).astype(np.float32),
        "axes": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "back"], ["p"], name="into"),
        helper.make_node("LSTM", ["p", "w", "r"], ["h"], name="lstm", hidden_size=16),
        helper.make_node("Squeeze", ["h", "axes"], ["s"], name="squeeze"),
        helper.make_node("MatMul", ["s", "head"], ["y"], name="head"),
    ]
    model = save(
        tmp_path / "model.onnx",
        nodes,
        constants,
        [("x", TensorProto.FLOAT, ["t", 1, 8])],
        [("y", ["t", 1, 8])],
    )
    samples = [{"x": random.standard_normal((5, 1, 8)).astype(np.float32)} for _ in range(16)]
    with pytest.raises(ModelError, match=r"does not reach 90 dB with \d of \d groups"):
        repaired(model, tmp_path / "out.xml", samples[:8], samples[8:], 90.0)
