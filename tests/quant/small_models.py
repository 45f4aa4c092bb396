"""Small models with every kind of layer, ranges for them, and the same model with forms simulated in floats."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from edgeopt.graph.model import load, save
from edgeopt.graph.nodes import constant
from edgeopt.quant.layers import computed_inputs, find_layers, nodes_by_key
from edgeopt.quant.records import Layer, QuantSettings, Range
from edgeopt.quant.schemes import SchemeContext, scheme_named
from edgeopt.quant.schemes.writer import Writer, give_as_output
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import narrow, seeded, write_onnx

RUNS = 6


@dataclass(frozen=True)
class Case:
    """A model with its layers, feeds and the ranges of its tensors."""

    path: Path
    model: ir.Model
    layers: tuple[Layer, ...]
    feeds: list[dict[str, np.ndarray]]
    ranges: dict[str, Range]

    def context(self, backend: str, **settings: object) -> SchemeContext:
        """For this device, unless told otherwise."""
        settings = {"reduce_range": narrow(), **settings}
        return SchemeContext(backend, QuantSettings(**settings), self.ranges)  # type: ignore[arg-type]

    def choices(self, form: str, context: SchemeContext) -> dict[str, str]:
        """That form for every layer that it fits."""
        return {layer.name: form for layer in self.layers if not scheme_named(form).fits(layer, context)}

    def written(self, form: str, context: SchemeContext, path: Path) -> Path:
        save(write(self.model, self.layers, self.choices(form, context), context).model, path)
        onnx.checker.check_model(str(path))
        return path

    def answers(self, path: Path | None = None) -> list[dict[str, np.ndarray]]:
        return run(path or self.path, self.feeds)


def context_for(one: Case, form: str, backend: str) -> SchemeContext:
    """Products of sixteen bits overflow nowhere, so their weights have all eight."""
    return one.context(backend, **({"reduce_range": False} if form == "a16w8" else {}))


def case(path: Path, feeds: list[dict[str, np.ndarray]]) -> Case:
    model = load(path).ir
    layers = find_layers(model, {name: array.shape for name, array in feeds[0].items()})
    return Case(path, model, layers, feeds, ranges(path, tensors_wanted(model, layers, QuantSettings()), feeds))


def ranges(path: Path, tensors: tuple[str, ...], feeds: list[dict[str, np.ndarray]]) -> dict[str, Range]:
    proto = onnx.load(path)
    known = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    proto.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in tensors
        if name not in known
    )
    session = ort.InferenceSession(proto.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    found: dict[str, Range] = {}
    for feed in feeds:
        values = {**feed, **dict(zip(names, session.run(None, feed), strict=True))}
        for name in tensors:
            kept, low, high = found.get(name, Range(0, 0)), float(values[name].min()), float(values[name].max())
            found[name] = Range(min(kept.low, low), max(kept.high, high))
    return found


def run(path: Path, feeds: list[dict[str, np.ndarray]], exactly: bool = False) -> list[dict[str, np.ndarray]]:
    """What ONNX Runtime answers; exactly: without the rewriting that rounds weights which stand behind a pair."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if exactly:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = ort.InferenceSession(str(path), options)
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


def snr_db(wanted: list[dict[str, np.ndarray]], got: list[dict[str, np.ndarray]]) -> float:
    """Of the worst output, over all runs together."""

    def energy(name: str, of: str) -> float:
        pairs = [
            (a[name].astype(np.float64), b[name].astype(np.float64)) for a, b in zip(wanted, got, strict=True)
        ]
        return float(sum(np.square(a if of == "signal" else a - b).sum() for a, b in pairs))

    return min(10 * np.log10(energy(n, "signal") / max(energy(n, "noise"), 1e-30)) for n in wanted[0])


def simulated(one: Case, form: str, context: SchemeContext, path: Path) -> Path:
    """The float model with what the form can hold in place of weights and activations."""
    model, chosen = one.model.clone(), scheme_named(form)
    nodes, names = nodes_by_key(model.graph), one.choices(form, context)
    pairs = [(nodes[key], layer) for layer in one.layers if layer.name in names for key in layer.nodes]
    for node, layer in pairs:
        if layer.weight:
            place = 0 if layer.operator == "Gather" else 1
            weight = chosen.fake_weights(constant(node.inputs[place]), layer, context)
            tensor = ir.tensor(weight, name=f"{node.outputs[0].name}_fake_weight")
            value = ir.Value(name=tensor.name, const_value=tensor)
            value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(weight.shape)
            model.graph.register_initializer(value)
            node.replace_input_with(place, value)
    places = [(node, place, node.inputs[place], layer) for node, layer in pairs for place in computed_inputs(node)]
    for node, place, value, layer in places:
        if layer.operator != "Gather":
            node.replace_input_with(place, chosen.fake_input(model.graph, node, value, layer, context))
    for node, layer in pairs if chosen.fake_output else ():
        old = node.outputs[0]
        readers = [(use.node, use.idx) for use in old.uses()]
        new = chosen.fake_output(model.graph, node, old, layer, context)
        for reader, place in readers if new is not old else ():
            reader.replace_input_with(place, new)
        if new is not old:
            give_as_output(Writer(model.graph), old, new)
    save(model, path)
    return path


def picture_net(folder: Path) -> Case:
    """Convolutions with all that may lie between them: activations, pools, joins, a residual; a classifier."""
    nodes = [
        ("Conv", ["x", "k1", "b1"], ["c1"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "k2", "b2"], ["c2"], {"pads": [1, 1, 1, 1], "group": 16}),
        ("Clip", ["c2", "zero", "six"], ["r2"], {}),
        ("Conv", ["r2", "k3"], ["c3"], {}),
        ("Add", ["c3", "r1"], ["sum"], {}),
        ("MaxPool", ["sum"], ["pool"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Sigmoid", ["pool"], ["gate"], {}),
        ("Mul", ["pool", "gate"], ["silu"], {}),
        ("Concat", ["silu", "pool"], ["joined"], {"axis": 1}),
        ("Conv", ["joined", "k4", "b4"], ["c4"], {}),
        ("Tanh", ["c4"], ["t4"], {}),
        ("GlobalAveragePool", ["t4"], ["mean"], {}),
        ("Flatten", ["mean"], ["flat"], {}),
        ("Gemm", ["flat", "w5", "b5"], ["y"], {"transB": 1}),
    ]
    weights = {
        "k1": seeded(16, 3, 3, 3) * 2, "b1": seeded(16, seed=1), "k2": seeded(16, 1, 3, 3, seed=2) * 2,
        "b2": seeded(16, seed=3) * 0.1, "k3": seeded(16, 16, 1, 1, seed=4), "k4": seeded(24, 32, 1, 1, seed=5),
        "b4": seeded(24, seed=6) * 0.1, "w5": seeded(10, 24, seed=7), "b5": seeded(10, seed=8),
        "zero": np.float32(0), "six": np.float32(6),
    }  # fmt: skip
    path = write_onnx(folder / "picture.onnx", nodes, weights, {"x": ["batch", 3, 8, 8]}, {"y": ["batch", 10]})
    return case(path, _feeds(x=(1, 3, 8, 8)))


def token_net(folder: Path) -> Case:
    """Three products of one tensor, two products of activations, a product whose result is an output."""
    nodes = [
        ("MatMul", ["x", "wq"], ["q"], {}),
        ("MatMul", ["x", "wk"], ["k"], {}),
        ("MatMul", ["x", "wv"], ["v0"], {}),
        ("Add", ["v0", "bv"], ["v"], {}),
        ("Transpose", ["k"], ["kt"], {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "kt"], ["scores"], {}),
        ("Softmax", ["scores"], ["shares"], {"axis": -1}),
        ("MatMul", ["shares", "v"], ["mixed"], {}),
        ("Add", ["mixed", "x"], ["sum"], {}),
        ("MatMul", ["sum", "wo"], ["y"], {}),
    ]
    weights = {name: seeded(64, 64, seed=k) for k, name in enumerate(("wq", "wk", "wv", "wo"))}
    weights["bv"] = seeded(64, seed=9) * 0.1
    path = write_onnx(folder / "tokens.onnx", nodes, weights, {"x": ["batch", 6, 64]}, {"y": ["batch", 6, 64]})
    return case(path, _feeds(x=(1, 6, 64)))


def odd_net(folder: Path) -> Case:
    """Weights used twice, no names, a transposed convolution, a stack of matrices, an output that is read on."""
    nodes = [
        ("Conv", ["x", "k"], ["c1"], {"pads": [1, 1, 1, 1]}),
        ("Conv", ["c1", "k"], ["c2"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c2"], ["r2"], {}),
        ("ConvTranspose", ["c2", "t"], ["up"], {"strides": [2, 2]}),
        ("MatMul", ["r2", "stack"], ["m"], {}),
        ("Gather", ["table", "ids"], ["rows"], {}),
        ("Add", ["m", "rows"], ["y"], {}),
    ]
    weights = {
        "k": seeded(4, 4, 3, 3), "t": seeded(4, 8, 2, 2, seed=1), "stack": seeded(4, 8, 8, seed=2),
        "table": seeded(32, 8, seed=3), "ids": np.arange(8, dtype=np.int64),
    }  # fmt: skip
    outputs = {"y": [1, 4, 8, 8], "up": [1, 8, 16, 16], "c1": [1, 4, 8, 8]}
    path = write_onnx(folder / "odd.onnx", nodes, weights, {"x": [1, 4, 8, 8]}, outputs)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, path)
    return case(path, _feeds(x=(1, 4, 8, 8)))


def _feeds(**shapes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(11)
    return [
        {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(RUNS)
    ]
