from edgeopt.backends.base import Kernel
from edgeopt.measure.op_times_rows import SourceNode, members_of


def graph(*lines):
    """`y = Conv x w` a node, numbered as the copies are that runtimes get; `! y = ...` computes a constant."""
    nodes = []
    for place, line in enumerate(lines):
        outputs, _, call = line.removeprefix("! ").partition(" = ")
        operator, *reads = call.split()
        name = f"edgeopt_{place}"
        nodes.append(SourceNode(name, place, operator, tuple(reads), tuple(outputs.split()), line.startswith("!")))
    return nodes


def kernel(line, *sources, ms=1.0, calls=1.0):
    outputs, _, call = line.partition(" = ")
    operator, *reads = call.split()
    return Kernel(
        sources[0] if sources else operator, operator, ms, calls, "CPU", sources, tuple(reads), (outputs,)
    )


def nodes_of(kernels, nodes):
    return [found.nodes for found in members_of(kernels, nodes)]


def test_a_node_that_is_named_or_whose_result_is_given():
    nodes = graph("a = Conv x w", "b = Relu a", "y = Gemm b v")
    kernels = [
        kernel("? = Conv x w", "edgeopt_0_nchwc"),
        kernel("b = Relu ?"),
        kernel("y = Gemm b v", "edgeopt_2"),
    ]
    assert nodes_of(kernels, nodes) == [(0,), (1,), (2,)]


def test_what_lies_between_two_kernels_went_into_the_later_one():
    nodes = graph("a = Conv x w", "b = BatchNormalization a s", "c = Relu b", "y = Gemm c v")
    assert nodes_of([kernel("c = FusedConv x w"), kernel("y = Gemm c v")], nodes) == [(0, 1, 2), (3,)]


def test_what_is_computed_before_the_model_runs_is_no_part_of_a_kernel():
    nodes = graph("! k = Transpose w", "a = Conv x k", "y = Relu a")
    assert nodes_of([kernel("y = FusedConv x k")], nodes) == [(1, 2)]


def test_a_number_is_not_the_beginning_of_a_longer_one():
    nodes = graph(*(f"v{k} = Neg v{k - 1}" for k in range(12)))
    kernels = [kernel(f"? = Neg ?{k}", f"edgeopt_{k}/QuickGeluFusion/") for k in (1, 11)]
    assert members_of(kernels, nodes)[0].own == (0, 1)
    assert members_of(kernels, nodes)[1].own == tuple(range(2, 12))


def test_a_conversion_works_for_those_that_read_it_else_for_those_that_made_what_it_reads():
    nodes = graph("a = Conv x w", "y = Relu a")
    kernels = [
        kernel("r1 = ReorderInput x"),
        kernel("r2 = Cast r1"),
        kernel("b = Conv r2 w", "edgeopt_0"),
        kernel("y = Relu b", "edgeopt_1"),
        kernel("z = Reorder y"),
    ]
    found = members_of(kernels, nodes)
    assert [each.nodes for each in found] == [(0,), (0,), (0,), (1,), (1,)]
    assert [each.added for each in found] == [True, True, False, False, True]
    assert [each.own for each in found] == [(), (), (0,), (1,), ()]


def test_of_two_kernels_for_one_node_the_one_that_does_what_it_says_has_it():
    nodes = graph("y = Conv x w")
    kernels = [
        kernel("r = Reorder x", "edgeopt_0", ms=5.0),
        kernel("y = Convolution r w", "edgeopt_0/WithoutBiases"),
    ]
    found = members_of(kernels, nodes)
    assert [(each.own, each.added) for each in found] == [((), True), ((0,), False)]


def test_a_node_that_only_an_idle_layer_names_goes_to_the_kernel_before_it():
    """OpenVINO computes an old Softmax as reshape, softmax, reshape, and names the last after the node."""
    nodes = graph("a = Gemm x w", "y = Softmax a")
    kernels = [
        kernel("a = FullyConnected x w", "edgeopt_0"),
        kernel("s = Softmax a", "Softmax_77"),
        kernel("y = Reshape s", "edgeopt_1", ms=0.0, calls=0.0),
    ]
    found = members_of(kernels, nodes)
    assert [(each.own, each.added) for each in found[:2]] == [((0,), False), ((1,), False)]


def test_what_hangs_on_nothing_stays_unattributed():
    assert nodes_of([kernel("? = Mystery ??")], graph("y = Relu x")) == [()]


def test_layers_of_a_model_that_has_names_already():
    nodes = [SourceNode("Multiply_5/WithoutBiases", 0, "Convolution", ("x",), ("a",))]
    assert nodes_of([kernel("? = Convolution ??", "Multiply_5/WithoutBiases")], nodes) == [(0,)]


def test_a_layer_that_is_named_after_a_numbered_result():
    """OpenVINO ends an operator that it takes apart so."""
    nodes = graph("y.1 = ArgMax x")
    kernels = [kernel("t = TopK x"), kernel("? = Reshape t", "y.1.0"), kernel("?? = Convert ?", "y.1.0.0")]
    assert nodes_of(kernels, nodes) == [(0,), (0,), (0,)]
