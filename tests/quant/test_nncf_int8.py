import importlib.util

import pytest

from edgeopt.quant.nncf_int8 import quantize

# NNCF and what it imports warn of their own future.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="NNCF is not installed"),
]


@pytest.mark.parametrize("transformer", [False, True])
def test_a_convolution(conv_model, conv_samples, sound, ir_types, tmp_path, transformer):
    out = tmp_path / "model.xml"
    quantize(conv_model, conv_samples, out, transformer)
    assert sound(conv_model, out, conv_samples, "openvino-cpu") > 20
    assert ir_types(out) == {"i8"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bin", "model.xml"]


def test_a_matrix_product(matmul_model, row_samples, sound, ir_types, tmp_path):
    quantize(matmul_model, row_samples, tmp_path / "model.xml", transformer=False)
    assert sound(matmul_model, tmp_path / "model.xml", row_samples, "openvino-cpu") > 20
    assert "i8" in ir_types(tmp_path / "model.xml")
