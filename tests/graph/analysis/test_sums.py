import subprocess
import sys

import onnx
import pytest

from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.analysis.cost import Call, Operand, cost_of
from edgeopt.graph.analysis.records import Cost, NodeRow, TensorFacts
from edgeopt.graph.analysis.sums import operator_rows, work


def node(operator, domain="", weights_bytes=0, shape=(1,)):
    own = {"counted_weights_bytes": weights_bytes}
    return NodeRow(0, "", operator, domain, (), (TensorFacts("y", "float32", shape),), weights_bytes, 0, **own)


def test_operators_are_counted_by_type_and_domain_most_frequent_first():
    rows = operator_rows(
        [node("Add"), node("Conv", weights_bytes=8), node("Conv", weights_bytes=4), node("Conv", "own")]
    )
    assert [(r.operator, r.domain, r.count, r.weights_bytes) for r in rows] == [
        ("Conv", "", 2, 12),
        ("Add", "", 1, 0),
        ("Conv", "own", 1, 0),
    ]


def reasons(*costs, operator="Relu"):
    rows = [NodeRow(0, f"n{k}", operator, "", (), (), 0, 0, cost=cost) for k, cost in enumerate(costs)]
    return work(rows, (None, "", 0), "", ()).unknown_reasons


@pytest.mark.parametrize("name", ["a", "it's", "{}", "domain "])
def test_nodes_with_a_tensor_of_unknown_shape_are_told_together(name):
    costs = [cost_of(Call("Relu", (Operand(each, None, 32),), (Operand("y", (1,), 32),))) for each in (name, "b")]
    assert reasons(costs[0]) == (f"Relu 'n0': the shape of '{name}' is known only at run time",)
    assert reasons(*costs) == ("Relu 'n0' and 1 more: the shape of a tensor is known only at run time",)


def test_other_quoted_words_are_kept():
    cost = Cost(unknown="its equation 'ij' does not fit its inputs")
    assert reasons(cost, cost) == ("Relu 'n0' and 1 more: its equation 'ij' does not fit its inputs",)


def test_what_holds_a_node_of_unknown_cost_is_not_counted_again():
    assert reasons(Cost(unknown="within: it is odd", unknown_within=True), operator="Loop") == ()
    assert len(reasons(Cost(unknown="within: it is odd"), operator="Loop")) == 1


def test_every_operator_that_onnx_ever_defined_has_a_category():
    onnx_schemas = onnx.defs.get_all_schemas_with_history()
    without = {
        (schema.domain, schema.name)
        for schema in onnx_schemas
        if operator_type(schema.name, schema.domain) is OperatorType.UNKNOWN
    }
    assert not without


@pytest.mark.parametrize(
    ("operator", "domain", "category"),
    [
        ("Conv", "", "convolution"),
        ("Softmax", "ai.onnx", "normalization"),
        ("TreeEnsembleClassifier", "ai.onnx.ml", "tree ensemble"),
        ("MatMulNBits", "com.microsoft", "matrix product"),
        ("SkipLayerNormalization", "com.microsoft", "normalization"),
        ("Conv", "com.microsoft.nchwc", "convolution"),
        # A name says nothing in a domain that nobody knows, nor does a name of one domain in another.
        ("Conv", "far.away", "unknown"),
        ("MatMulNBits", "", "unknown"),
    ],
)
def test_a_category_is_one_of_an_operator_in_its_domain(operator, domain, category):
    assert operator_type(operator, domain) == category


def test_the_table_needs_no_library():
    program = (
        "import edgeopt.graph.analysis.categories, sys; print({'onnx', 'onnx_ir', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
