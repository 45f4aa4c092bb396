import numpy as np
import onnxruntime as ort
import pytest

from edgeopt.data.samples import Samples
from edgeopt.graph.masks import STEP, kept_length, kept_share
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.skip_padding import PASS
from tests.masked import HEARD, feeds


def skipped(model):
    return PASS.apply(model.ir, PassContext())


@pytest.mark.parametrize("kept", [(1,), (STEP,), (STEP + 1,), (40,), (3, 20), (0,), (0, 5)])
def test_the_answers_stay_and_what_is_left_out_is_not_computed(make_model, tmp_path, kept):
    import onnx_ir as ir

    source = make_model(HEARD)
    result = skipped(source)
    given = feeds(*kept)
    rows = next(node for node in result.model.graph if node.op_type == "Gather").outputs[0]
    result.model.graph.outputs.append(rows)
    answers = []
    for name, model in (("source", source.ir), ("skipping", result.model)):
        ir.save(model, tmp_path / f"{name}.onnx")
        session = ort.InferenceSession(tmp_path / f"{name}.onnx", providers=["CPUExecutionProvider"])
        answers.append(session.run(None, given))
    np.testing.assert_array_equal(answers[1][0], answers[0][0])
    whole = 0 in kept  # of such a row, nobody knows what is padding
    assert answers[1][1].shape[1] == (40 if whole else min(40, -(-max(kept) // STEP) * STEP))
    assert answers[1][1].shape[1] == kept_length(given["attention_mask"])


def test_inside_the_length_has_another_name(make_model, shaped):
    model = skipped(shaped(make_model(HEARD))).model
    assert str(model.graph.inputs[0].shape) == "[b,n]"
    assert str(next(node for node in model.graph if node.op_type == "Gather").outputs[0].shape[1]) != "n"


def test_once_is_enough(make_model):
    once = skipped(make_model(HEARD))
    again = PASS.apply(once.model, PassContext())
    assert once.applied
    assert not again.applied
    assert not again.refused


REFUSED = (
    (HEARD.replace("[b,n] ids", "[b,8] ids").replace("[b,n] att", "[b,8] att"), "its length is fixed"),
    (
        "g (int64[b,n] x, int64[b,n] attention_mask) => (int64[b,n] y) { y = Mul (x, attention_mask) }",
        "the output 'y' has a row for each position",
    ),
    (
        """g (int64[b,n] mask_a, int64[b,n] mask_b) => (int64[b] y) <int64[1] one = {1}> {
            c = Add (mask_a, mask_b)  y = ReduceSum <keepdims = 0> (c, one) }""",
        "several masks",
    ),
)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_cannot_be_skipped_is_told(make_model, reasons, text, reason):
    result = skipped(make_model(text))
    assert reason in reasons(result)
    assert not result.applied


def test_a_model_without_a_mask_is_none_of_its_business(make_model):
    result = skipped(make_model("g (float[b,n] x) => (float[b,n] y) { y = Relu (x) }"))
    assert not result.applied
    assert not result.refused


def test_how_much_is_kept():
    masks = np.stack([feeds(3)["attention_mask"], feeds(40)["attention_mask"]])
    assert kept_share(Samples({"m": masks}, {"m": 2}), "m") == (STEP + 40) / 80
    assert kept_share(Samples({"m": masks[:0]}, {"m": 2}), "m") == 1.0
