"""Eight bits for weights and activations, with ranges found beforehand."""

from functools import partial

from edgeopt.quant.forms import qdq
from edgeopt.quant.forms.base import Form
from edgeopt.quant.layers import PRODUCTS

FORM = Form(
    name="int8",
    title="eight bits for weights and activations, with calibrated ranges",
    operators=PRODUCTS,
    backends=(
        *("onnxruntime-cpu", "onnxruntime-xnnpack", "onnxruntime-directml", "onnxruntime-qnn"),
        *("onnxruntime-tensorrt", "onnxruntime-openvino"),
        *("openvino-cpu", "openvino-gpu", "openvino-npu", "openvino-auto"),
    ),
    lowest_opset=13,
    needs_ranges=True,
    fits=partial(qdq.fits, 8),
    write=partial(qdq.write, 8),
    fake_weights=qdq.fake_weights,
    fake_input=partial(qdq.fake_input, 8),
    fake_output=partial(qdq.fake_output, 8),
    smooths=True,
)
