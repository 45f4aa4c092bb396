from collections import defaultdict
from math import prod

from edgeopt.commands.ops.case import SIZES
from edgeopt.commands.ops.cases import CASES, operators

WANTED = (
    "Add Sub Mul Div Sqrt Pow Exp Log Neg Abs Clip Relu LeakyRelu Elu Sigmoid Tanh Gelu Swish HardSwish Softmax",
    "MatMul Gemm Conv ConvTranspose MaxPool AveragePool GlobalAveragePool",
    "BatchNormalization LayerNormalization InstanceNormalization ReduceMean ReduceSum",
    "Reshape Transpose Concat Split Slice Gather Squeeze Unsqueeze Cast Pad Resize LSTM GRU Attention Where",
)


def test_the_operators_that_models_are_made_of_are_there():
    assert set(" ".join(WANTED).split()) <= set(operators())


def test_convolutions_of_all_kinds_are_there():
    variants = {case.variant for case in CASES if case.operator == "Conv"}
    assert {"3x3", "depth-wise 3x3", "1x1", "3x3 strided", "3x3 dilated"} <= variants


def test_each_is_tried_at_three_sizes_that_grow():
    groups = defaultdict(list)
    for case in CASES:
        groups[case.title, case.precision].append(case)
    for cases in groups.values():
        assert [case.size for case in cases] == list(SIZES)
        sizes = [sum(prod(port.shape) for port in case.ports if port) for case in cases]
        assert sizes[0] < sizes[1] < sizes[2], cases[0].title


def test_no_two_have_a_name_or_a_digest_in_common():
    assert len({case.name for case in CASES}) == len({case.digest for case in CASES}) == len(CASES)
