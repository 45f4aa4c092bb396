import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Coverage
from edgeopt.errors import ModelError

pytest.importorskip("onnxruntime")
ORT = backend_named("onnxruntime-cpu")


def test_every_unknown_operator_is_named(onnx_file):
    nodes = [("Foo", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Bar", ["b"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", [1])], outputs=[("y", "float32", [1])])
    assert ORT.supports(path) == Coverage(1, 3, ("Foo: Foo_0", "Bar: Bar_2"))


def test_an_operator_without_a_kernel_for_its_type_is_named(onnx_file):
    nodes = [("Add", ["x", "x"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "bfloat16", [1])], outputs=[("y", "bfloat16", [1])])
    assert ORT.supports(path) == Coverage(0, 1, ("Add: Add_0",))


def test_a_damaged_file_has_no_coverage(tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x08\x07garbage")
    with pytest.raises(ModelError, match="damaged"):
        ORT.supports(path)
