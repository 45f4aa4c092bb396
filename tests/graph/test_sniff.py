import onnx
import onnx.parser
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.graph.sniff import is_cut_short, what_is

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17], producer_name: "test"> '
    "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Exp(b) }"
).SerializeToString()


def test_a_model_is_nothing_else():
    assert what_is(MODEL) is None
    assert not is_cut_short(MODEL)


@given(st.binary(min_size=1, max_size=64))
def test_any_bytes_get_an_answer(data):
    sighting = what_is(data)
    assert sighting is None or (sighting.what and sighting.hint)
    assert is_cut_short(data) in {True, False}


@given(st.integers(min_value=len(MODEL) // 2, max_value=len(MODEL) - 25))
def test_a_model_without_its_end_is_told_as_that(length):
    assert is_cut_short(MODEL[:length])
