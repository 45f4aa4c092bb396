import importlib.util

import pytest

from edgeopt.quant.weights import compress

# NNCF and what it imports warn of their own future.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="NNCF is not installed"),
]


def test_a_matrix_product(matmul_model, row_samples, sound, ir_types, tmp_path):
    compress(matmul_model, tmp_path / "model.xml")
    assert sound(matmul_model, tmp_path / "model.xml", row_samples, "openvino-cpu") > 30
    assert "i8" in ir_types(tmp_path / "model.xml")
    assert (tmp_path / "model.bin").stat().st_size < 0.5 * matmul_model.stat().st_size
