"""What plans are made with is what is written: the simulated and the written model give the same."""

import pytest

from edgeopt.quant.forms import FORMS
from tests.quant.small_models import context_for, run, simulated, snr_db

ALIKE_DB = 50.0  # where one number now and then is rounded the other way
HALVES_DB = 6.0  # what lies between products is rounded as well, and a sum in half precision rounds on its way
BETWEEN_DB = 3.0  # eight bits are kept through what lies between products, which rounds once more
RUNNABLE = [form.name for form in FORMS if form.name != "bf16"]  # for which ONNX Runtime has no convolution


CASES = [
    *((form, "onnxruntime-cpu") for form in RUNNABLE),
    *((form, "openvino-cpu") for form in ("int8", "a16w8")),
    ("int8", "onnxruntime-tensorrt"),
]


@pytest.mark.parametrize("net", ["pictures", "tokens", "odd"])
@pytest.mark.parametrize(("form", "backend"), CASES)
def test_both_give_the_same(net, form, backend, request, tmp_path):
    one = request.getfixturevalue(net)
    context = one.context(backend, group_size=32, block_size=32)
    if not one.choices(form, context):
        assert (net, form) in {("odd", "int8-groups"), ("odd", "w4")}, "only what has no matrix is left out"
        return
    wanted = one.answers()
    written = one.answers(one.written(form, context, tmp_path / "written.onnx"))
    fake = run(simulated(one, form, context, tmp_path / "simulated.onnx"), one.feeds, exactly=True)
    got, expected = snr_db(wanted, written), snr_db(wanted, fake)
    assert got < 140, "nothing was rounded"
    if form == "fp16":
        assert abs(got - expected) < HALVES_DB
    elif (net, form) == ("pictures", "int8") and backend == "onnxruntime-cpu":
        assert abs(got - expected) < BETWEEN_DB
    else:
        assert snr_db(fake, written) > max(ALIKE_DB, got + 10)


@pytest.mark.parametrize(("form", "least"), [("int8", 20), ("w8", 35), ("fp16", 60), ("a16w8", 35), ("w4", 12)])
def test_each_is_as_exact_as_its_bits_allow(pictures, tokens, form, least, tmp_path):
    for one in (pictures, tokens):
        context = context_for(one, form, "onnxruntime-qnn" if form == "fp16" else "onnxruntime-cpu")
        written = one.written(form, context, tmp_path / "written.onnx")
        assert snr_db(one.answers(), one.answers(written)) > least
