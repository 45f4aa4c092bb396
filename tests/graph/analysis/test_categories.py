import subprocess
import sys

import onnx
import pytest

from edgeopt.graph.analysis.categories import OperatorType, operator_type


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
