"""ONNX's reference operators, one node at a time, with a rounding error after each where one is wanted."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op_list import load_op

# They give what they are given, or one of several: nothing is rounded.
EXACT = frozenset(
    {
        "Abs",
        "And",
        "ArgMax",
        "ArgMin",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "Dropout",
        "Equal",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "If",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Loop",
        "Max",
        "MaxPool",
        "Min",
        "Neg",
        "NonZero",
        "Not",
        "OneHot",
        "Or",
        "Pad",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "Relu",
        "Reshape",
        "ReverseSequence",
        "Round",
        "Scan",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Sign",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
        "Xor",
        "GlobalMaxPool",
    }
)

# Their rounding errors are as large as their summands, not as their results.
SUMMING = frozenset(
    {
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "CumSum",
        "Einsum",
        "Gemm",
        "GlobalAveragePool",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LogSoftmax",
        "LpNormalization",
        "LRN",
        "MatMul",
        "Mean",
        "MeanVarianceNormalization",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceSum",
        "ReduceSumSquare",
        "Resize",
        "RMSNormalization",
        "Softmax",
        "Sum",
        "Gelu",
        "Mish",
    }
)

EPSILONS = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float16): 2.0**-11, np.dtype(np.float64): 2.0**-53}
# Which zero they give is not defined where one operand is 0 and the other -0.
UNSIGNED = frozenset({"Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool"})
ZEROS = np.array([0.0, -0.0])

# ONNX Runtime computes them to steps of this size, not to so many digits.
STEPPED = frozenset(
    {
        "Sigmoid",
        "Elu",
        "Celu",
        "Selu",
        "HardSigmoid",
        "Tanh",
        "Erf",
        "Gelu",
        "HardSwish",
        "Mish",
        "Softplus",
        "GRU",
        "LSTM",
        "RNN",
    }
)
STEP = 2.0**-24

ENDS = np.array([np.inf, -np.inf, np.nan])
SMALLER = 2.0**-10
POOLS = ("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin")

SUBNORMAL = 2.0**-120  # below this, and a little above, numbers have fewer digits


class Rounding:
    """Multiplies numbers by 1 ± a few units in the last place: another computer's right answer."""

    def __init__(self, random: np.random.Generator, together: bool = False, units: float = 4.0) -> None:
        self.random, self.together, self.units = random, together, units

    def of(self, array: np.ndarray, kind: str = "") -> np.ndarray:
        if not isinstance(array, np.ndarray) or array.dtype not in EPSILONS:
            return array
        if kind in UNSIGNED:
            return np.where(array == 0, self.random.choice(ZEROS, array.shape).astype(array.dtype), array)
        if kind in STEPPED:
            with np.errstate(all="ignore"):
                array = array + (self.random.uniform(-4, 4, array.shape) * STEP).astype(array.dtype)
        # Equal numbers are mostly rounded alike, so that their differences are 0; and some are not.
        shape = () if self.together else array.shape
        error = self.random.uniform(-self.units, self.units, shape)
        smallest = np.where(np.abs(array) < SUBNORMAL, error * 2.0**-149, 0.0) * (array != 0)
        with np.errstate(all="ignore"):
            return (array * (1 + error * EPSILONS[array.dtype]) + smallest).astype(array.dtype)

    def overflowing(self, array: np.ndarray, smaller: np.ndarray) -> np.ndarray:
        """Whether a sum of large numbers becomes infinite, and of which sign, depends on its order.

        `smaller`: the same of smaller numbers, which is what it was without overflowing. A scale that is part of
        the weights keeps all of it finite.
        """
        same = (array == smaller) | (np.isnan(array) & np.isnan(smaller))
        over = ~np.isfinite(array) & ~same
        if not over.any():
            return array
        ends = ENDS if self.random.random() < 0.5 else np.array([-0.5, 0.5]) * np.finfo(array.dtype).max
        drawn = np.where(np.isfinite(smaller), self.random.choice(ends, array.shape), smaller)
        return np.where(over, drawn.astype(array.dtype), array)

    def pooled(self, array: np.ndarray) -> np.ndarray:
        """Whether the largest or least of numbers and NaN is NaN depends on their order, in ONNX Runtime."""
        if array.dtype not in EPSILONS:
            return array
        return np.where(np.isnan(array), self.random.choice(ENDS[:2], array.shape).astype(array.dtype), array)


# What is fused into a Softmax, whose kernel for AVX2 in ONNX Runtime gives no subnormal numbers.
FUSED_INTO_SOFTMAX = frozenset({"Exp", "Div"})


class Flushing(Rounding):
    """Takes subnormal numbers for zero, as runtimes may; those that operators of these kinds give, or all."""

    def __init__(self, kinds: Collection[str] = ()) -> None:
        super().__init__(np.random.default_rng(0))
        self.kinds = kinds

    def of(self, array: np.ndarray, kind: str = "") -> np.ndarray:
        if (
            not isinstance(array, np.ndarray)
            or array.dtype != np.float32
            or (self.kinds and kind not in self.kinds)
        ):
            return array
        return np.where(np.abs(array) < np.finfo(np.float32).tiny, np.zeros((), np.float32), array)


@dataclass(frozen=True)
class Step:
    node: onnx.NodeProto
    implementation: OpRun | None
    branches: "Mapping[str, Program]"
    formal: Sequence[str] = ()
    """The inputs of the body of a Loop or Scan."""


@dataclass(frozen=True)
class Program:
    steps: Sequence[Step]
    weights: Mapping[str, np.ndarray]
    outputs: Sequence[str]

    def run(
        self, feeds: Mapping[str, np.ndarray], rounding: Rounding | None = None, outside: Mapping | None = None
    ) -> dict[str, np.ndarray]:
        values = {"": None, **(outside or {}), **self.weights, **feeds}
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.update(zip(step.node.output, _results(step, values, rounding), strict=False))
        return {name: values[name] for name in self.outputs}


def _results(step: Step, values: Mapping, rounding: Rounding | None) -> Sequence[np.ndarray]:
    node = step.node
    if node.op_type == "Loop" and step.branches:
        return _loop(step, values, rounding)
    if node.op_type == "Scan" and step.branches:
        return _scan(step, values, rounding)
    if step.branches:
        taken = step.branches["then_branch" if np.asarray(values[node.input[0]]).all() else "else_branch"]
        return list(taken.run({}, rounding, values).values())
    operands = [values[name] for name in node.input]
    if rounding is not None and _rounds_operands(node, rounding):
        numbers = operands[:1] if node.op_type == "Resize" else operands  # the others are sizes
        operands = [*(rounding.of(one) for one in numbers), *operands[len(numbers) :]]
    if rounding is not None and node.op_type in POOLS:
        operands[0] = rounding.pooled(operands[0])
    results = _called(step.implementation, operands, values)
    if rounding is not None and (node.op_type not in EXACT or node.op_type in UNSIGNED):
        results = [rounding.of(one, node.op_type) for one in results]
        if node.op_type in SUMMING and _overflow(results):
            smaller = _called(step.implementation, _smaller(node, operands), values)
            results = [rounding.overflowing(*pair) for pair in zip(results, smaller, strict=True)]
    return results


class NothingCollectedError(Exception):
    """What a body that never runs would have collected has no known shape."""


def _loop(step: Step, values: Mapping, rounding: Rounding | None) -> list[np.ndarray]:
    body, names = step.branches["body"], step.formal
    maximum, going, *state = (values[name] for name in step.node.input)
    going = True if going is None else bool(going)
    collected: list[list[np.ndarray]] = [[] for _ in body.outputs[1 + len(state) :]]
    turn = 0
    while going and (maximum is None or turn < int(maximum)):
        feeds = dict(zip(names, [np.array(turn, np.int64), np.array(going), *state], strict=True))
        goes_on, *made = body.run(feeds, rounding, values).values()
        going, turn, state = bool(goes_on), turn + 1, made[: len(state)]
        for rows, one in zip(collected, made[len(state) :], strict=True):
            rows.append(one)
    return [*state, *_stacked(collected)]


def _scan(step: Step, values: Mapping, rounding: Rounding | None) -> list[np.ndarray]:
    """Of one sequence, with all that it collects along the first dimension."""
    said = {one.name: helper.get_attribute_value(one) for one in step.node.attribute if one.name != "body"}
    *state, sequence = (values[name] for name in step.node.input)
    parts = np.moveaxis(sequence, said["scan_input_axes"][0], 0)
    body = step.branches["body"]
    collected: list[list[np.ndarray]] = [[] for _ in body.outputs[len(state) :]]
    for part in parts[::-1] if said["scan_input_directions"][0] else parts:
        made = list(body.run(dict(zip(step.formal, [*state, part], strict=True)), rounding, values).values())
        state = made[: len(state)]
        for rows, one in zip(collected, made[len(state) :], strict=True):
            rows.append(one)
    return [*state, *_stacked(collected)]


def _stacked(collected: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    if not all(collected):
        raise NothingCollectedError
    return [np.stack(rows) for rows in collected]


def _overflow(results: Sequence[np.ndarray]) -> bool:
    return any(one.dtype in EPSILONS and not np.isfinite(one).all() for one in results)


def _smaller(node: onnx.NodeProto, operands: Sequence) -> list:
    count = 1 if node.op_type == "Resize" else len(operands)  # its others are sizes
    numbers = [
        one * one.dtype.type(SMALLER) if isinstance(one, np.ndarray) and one.dtype in EPSILONS else one
        for one in operands[:count]
    ]
    return [*numbers, *operands[count:]]


def _rounds_operands(node: onnx.NodeProto, rounding: Rounding) -> bool:
    """Also of sums: constants added one after another may be added to each other first, and rounded then."""
    if node.op_type in {"Add", "Sub"}:
        return node.input[0] != node.input[1]
    return node.op_type in SUMMING or isinstance(rounding, Flushing)


def _called(implementation: OpRun | None, operands: Sequence, values: Mapping) -> Sequence[np.ndarray]:
    assert implementation is not None
    if (
        implementation.op_type == "LogSoftmax"
    ):  # that of the reference is the logarithm of a Softmax, which may be 0
        return [_log_softmax(operands[0], implementation.axis)]
    if implementation.need_context():
        return implementation.run(*operands, context={k: v for k, v in values.items() if k})
    return implementation.run(*operands)


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def program(graph: onnx.GraphProto, opset: int) -> Program:
    steps = [_step(node, opset) for node in graph.node]
    weights = {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}
    return Program(steps, weights, [value.name for value in graph.output])


def _step(node: onnx.NodeProto, opset: int) -> Step:
    graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
    formal = [value.name for graph in graphs.values() for value in graph.input]
    branches = {name: program(graph, opset) for name, graph in graphs.items()}
    return Step(node, None if branches else _implementation(node, opset), branches, formal)


def computed(
    node: onnx.NodeProto, operands: Sequence, opset: int, outside: Mapping[str, np.ndarray]
) -> Sequence[np.ndarray] | None:
    """What a node gives for these operands, or None where it does not take them."""
    try:
        step = _step(node, opset)
        values = {**outside, "": None, **dict(zip(node.input, operands, strict=True))}
        with np.errstate(all="ignore"):
            results = _results(step, values, None)
        return [np.asarray(one) for one in results]
    except Exception:  # noqa: BLE001 - each operator has its own way to say that it does not take them
        return None


def _version(kind: str, opset: int) -> int:
    """The opset whose implementation is taken; a BatchNormalization before 14 always trains in the reference."""
    return max(opset, 15) if kind == "BatchNormalization" else opset


def _implementation(node: onnx.NodeProto, opset: int) -> OpRun:
    said = {
        "log": lambda *_: None,
        "opsets": {"": opset},
        "verbose": 0,
        "new_ops": None,
        "existing_functions": {},
        "evaluator_cls": ReferenceEvaluator,
    }
    # Only functions that depend on the types of their operands ask for these (Gelu).
    types = [helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)] * len(node.input)
    made = load_op(
        "",
        node.op_type,
        _version(node.op_type, opset),
        node=node,
        input_types=types,
        evaluator_cls=ReferenceEvaluator,
    )
    return _WidePool(made(node, said)) if node.op_type == "MaxPool" else made(node, said)


class _WidePool:
    """The reference's pool, which takes unequal pads for others: [0, 0, 0, 1] for [0, 0, 1, 0]."""

    op_type = "MaxPool"

    def __init__(self, pool: OpRun) -> None:
        self.pool = pool
        pads = list(pool.pads or [])
        half = len(pads) // 2
        self.begin, self.end = pads[:half], pads[half:]
        self.unequal = self.begin != self.end
        if self.unequal:
            pool.pads = [0] * len(pads)

    def need_context(self) -> bool:
        return False

    def run(self, x: np.ndarray) -> Sequence[np.ndarray]:
        if not self.unequal:
            return self.pool.run(x)
        around = [(0, 0), (0, 0), *zip(self.begin, self.end, strict=True)]
        minimum = -np.inf if x.dtype in EPSILONS else np.iinfo(x.dtype).min
        found = self.pool.run(np.pad(x, around, constant_values=minimum))
        # Rounded up, the last window of a row may begin in the padding, which no longer tells it from the input.
        strides = self.pool.strides or [1] * len(self.begin)
        real = zip(x.shape[2:], self.begin, strides, strict=True)
        inside = (..., *(slice(math.ceil((size + begin) / stride)) for size, begin, stride in real))
        return [each[inside] for each in found]
