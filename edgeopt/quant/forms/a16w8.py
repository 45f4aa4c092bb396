"""Eight bits for weights and sixteen for activations, with ranges found beforehand: for accelerators."""

from functools import partial

from edgeopt.quant.forms import qdq
from edgeopt.quant.forms.base import Form
from edgeopt.quant.layers import PRODUCTS

FORM = Form(
    name="a16w8",
    title="eight bits for weights, sixteen for activations, with calibrated ranges",
    operators=PRODUCTS,
    backends=("onnxruntime-qnn",),
    lowest_opset=21,
    needs_ranges=True,
    fits=partial(qdq.fits, 16),
    write=partial(qdq.write, 16),
    fake_weights=qdq.fake_weights,
    fake_input=partial(qdq.fake_input, 16),
    fake_output=partial(qdq.fake_output, 16),
)
