import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Coverage
from edgeopt.errors import ModelError

pytest.importorskip("openvino")
OPENVINO = backend_named("openvino-cpu")


def test_every_node_that_stays_unconverted_is_named(onnx_file):
    nodes = [("Foo", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Bar", ["b"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", [1])], outputs=[("y", "float32", [1])])
    coverage = OPENVINO.supports(path)
    assert (coverage.supported, coverage.total) == (1, 3)
    assert sorted(coverage.unsupported) == ["Bar: Bar_2", "Foo: Foo_0"]


def test_a_converted_model_is_counted_without_its_weights(onnx_file):
    assert OPENVINO.supports(onnx_file("two")) == Coverage(3, 3, ())


def test_a_damaged_file_has_no_coverage(tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x08\x07garbage")
    with pytest.raises(ModelError, match="damaged"):
        OPENVINO.supports(path)
