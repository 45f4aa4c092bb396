import onnx
import pytest

from edgeopt.backends.intended import KEY, Intended, encoded, intended, is_usable


@pytest.fixture
def made_for(conv_model, tmp_path):
    def write(value: str):
        model = onnx.load(conv_model)
        entry = model.metadata_props.add()
        entry.key, entry.value = KEY, value
        onnx.save(model, tmp_path / "made.onnx")
        return tmp_path / "made.onnx"

    return write


def test_what_a_file_was_made_for_is_read_back(made_for):
    options = {"precision": "bf16", "threads": 2, "shapes": {"x": [1, 3, 8, 8]}}
    path = made_for(encoded("openvino-cpu", options))
    assert intended(path) == Intended("openvino-cpu", options)


@pytest.mark.parametrize("value", ["", "openvino-cpu", "{}", '{"backend": 3}', '["backend"]'])
def test_what_cannot_be_read_says_nothing(made_for, value):
    assert intended(made_for(value)) is None


def test_other_files_say_nothing(conv_model, tmp_path):
    assert intended(conv_model) is None
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "torn.onnx").write_bytes(conv_model.read_bytes()[:100])
    for name in ("empty.onnx", "torn.onnx", "none.onnx", "model.xml"):
        assert intended(tmp_path / name) is None


def test_an_unknown_backend_is_not_usable():
    assert is_usable("onnxruntime-cpu")
    assert not is_usable("abacus")
