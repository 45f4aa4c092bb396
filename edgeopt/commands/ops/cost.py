"""The work of an operator, and the number of inputs of one output value, which bounds the rounding."""

from math import prod

from edgeopt.commands.ops.case import Attributes
from edgeopt.graph.analysis.cost import Call, Operand, Unknown, arithmetic

Shape = tuple[int, ...]

MOVES = (
    "Reshape", "Transpose", "Concat", "Split", "Slice", "Gather", "Squeeze", "Unsqueeze", "Pad", "Expand",
    "Flatten", "DepthToSpace", "Identity", "Constant", "Shape", "ConstantOfShape", "Cast",
)  # fmt: skip
"""They move numbers and compute none."""
CHOICES = (
    "Neg", "Abs", "Relu", "Clip", "Where", "Max", "Min", "Floor", "MaxPool", "GlobalMaxPool", "ReduceMax",
)  # fmt: skip
"""What they give is one of their numbers, or a whole one, or one with another sign."""
_PRODUCTS = ("Conv", "ConvInteger", "QLinearConv", "MatMul", "MatMulInteger", "QLinearMatMul", "Gemm")
_POOLS = ("AveragePool", "MaxPool")
_RECURRENT = ("LSTM", "GRU", "RNN")
STEPWISE = (*_RECURRENT, "Attention")
"""They are several operators in one, or one again and again."""
NORMS = (
    "BatchNormalization", "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization",
    "GroupNormalization", "RMSNormalization",
)  # fmt: skip
_READ_IN_PART = ("Gather", "Slice")


def operations(operator: str, inputs: list[Shape], outputs: list[Shape], attributes: Attributes) -> int:
    """Of one run, as `graph.analysis.cost` counts them; 0 where the shapes do not tell."""
    call = Call(operator, _operands(inputs), _operands(outputs), attributes=attributes)
    try:
        return arithmetic(call).operations
    except Unknown:
        return 0


def _operands(shapes: list[Shape]) -> tuple[Operand, ...]:
    return tuple(Operand(str(place), shape) for place, shape in enumerate(shapes))


def fan_in(operator: str, inputs: list[Shape], outputs: list[Shape], attributes: Attributes) -> int:
    """How many products or numbers are added up for one number of the output; not those averaged on the way."""
    if not inputs or not outputs:
        return 1
    given = inputs[0]
    found = 1
    if operator in {"Conv", "ConvInteger"}:
        found = prod(inputs[1][1:])
    elif operator == "QLinearConv":
        found = prod(inputs[3][1:])
    elif operator == "ConvTranspose":
        found = prod(inputs[1]) // inputs[1][1] // prod(_whole(attributes, "strides"))
    elif operator in {"MatMul", "QLinearMatMul", "MatMulInteger"}:
        found = given[-1] if given else 1
    elif operator == "Gemm":
        found = prod(given) // max(1, outputs[0][0])
    elif operator in _RECURRENT:
        found = inputs[1][2] + inputs[2][2]
    elif operator == "Attention":
        found = 4 * (given[-1] + inputs[1][-2])  # two sums and an exponential function, one after the other
    elif operator in _POOLS:
        found = prod(_whole(attributes, "kernel_shape"))
    elif operator.startswith(("Reduce", "Global")):
        found = prod(given) // max(1, prod(outputs[0]))
    return max(1, found)


def bytes_moved(operator: str, inputs_bytes: list[int], outputs_bytes: int) -> int:
    """What must at least be read and written."""
    if operator in _READ_IN_PART:
        return min(inputs_bytes[0], outputs_bytes) + sum(inputs_bytes[1:]) + outputs_bytes
    return sum(inputs_bytes) + outputs_bytes


def _whole(attributes: Attributes, name: str) -> tuple[int, ...]:
    value = attributes.get(name, (1,))
    return tuple(int(each) for each in value) if isinstance(value, tuple) else (1,)
