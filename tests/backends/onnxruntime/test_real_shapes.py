import numpy as np
import pytest

from edgeopt.backends.onnxruntime.profile import real_shapes
from edgeopt.errors import ModelError

pytest.importorskip("onnxruntime")
parser = pytest.importorskip("onnx.parser")

HEAD = '<ir_version: 9, opset_import: ["" : 17, "own" : 1]>'


@pytest.fixture
def written(tmp_path):
    """A model from its text."""

    def write(text, **save):
        import onnx

        path = tmp_path / "model.onnx"
        model = parser.parse_model(HEAD + text)
        for weight in model.graph.initializer:  # the parser's form stays inside the file
            weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
        onnx.save(model, path, **save)
        return path

    return write


def test_what_only_a_run_can_tell(written):
    path = written("""
        g (float[n, 4] x) => (int64[r, f] y) {
            same = Relu(x)
            same2 = Neg(same)
            found = NonZero(same2)
            y = Identity(found)
        }""")
    x = np.array([[1, 0, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0]], np.float32)
    shapes = real_shapes(path, {"x": x})
    assert shapes == {"x": (3, 4), "same": (3, 4), "same2": (3, 4), "found": (2, 3), "y": (2, 3)}
    assert list(path.parent.iterdir()) == [path]


def test_between_two_functions_of_the_model(written):
    path = written("""
        g (float[n] x) => (float[m] y) { a = own.twice(x) b = own.twice(a) y = own.twice(b) }
        <opset_import: ["" : 17], domain: "own">
        twice (x) => (y) { y = Concat <axis = 0> (x, x) }""")
    assert real_shapes(path, {"x": np.ones(3, np.float32)}) == {"x": (3,), "a": (6,), "b": (12,), "y": (24,)}


def test_the_last_turn_of_a_loop_and_the_branch_that_was_taken(written):
    path = written("""
        g (float[n] x, bool c) => (float[m] y, float[k] z) {
            turns = Constant <value = int64 {3}> ()
            y = Loop (turns, , x) <body = turn (int64 i, bool on, float[a] have) => (bool more, float[b] longer) {
                more = Identity(on)
                longer = Concat <axis = 0> (have, have)
            }>
            z = If (c) <
                then_branch = yes () => (float[k] grown) { grown = Concat <axis = 0> (x, x) },
                else_branch = no () => (float[k] kept) { kept = Relu(x) }
            >
        }""")
    shapes = real_shapes(path, {"x": np.ones(2, np.float32), "c": np.array(True)})
    assert (shapes["have"], shapes["longer"], shapes["y"]) == ((8,), (16,), (16,))
    assert (shapes["grown"], shapes["z"]) == ((4,), (4,))
    assert "kept" not in shapes


def test_one_name_in_two_branches_of_different_shapes_is_left_out(written):
    branch = (
        "then_branch = yes () => (float[k] v) {{ v = {} }}, else_branch = no () => (float[k] w) {{ w = Relu(x) }}"
    )
    path = written(f"""
        g (float[n] x, bool c) => (float[m] y, float[k] z) {{
            y = If (c) <{branch.format("Concat <axis = 0> (x, x)")}>
            z = If (c) <{branch.format("Neg(x)")}>
        }}""")
    shapes = real_shapes(path, {"x": np.ones(2, np.float32), "c": np.array(True)})
    assert shapes == {"x": (2,), "c": (), "y": (4,), "z": (2,)}


def test_sequences_have_no_shape_and_do_not_hide_the_others(written):
    path = written("""
        g (float[n] x) => (float[m] y, seq(float[n]) s) {
            s = SequenceConstruct(x, x)
            y = ConcatFromSequence <axis = 0> (s)
        }""")
    assert real_shapes(path, {"x": np.ones(2, np.float32)}) == {"x": (2,), "y": (4,)}


def test_weights_beside_the_model_are_found(written, tmp_path, monkeypatch):
    path = written(
        """g (float[1, 4] x) => (float[1, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
            h = MatMul(x, w)
            y = Neg(h)
        }""",
        save_as_external_data=True,
        size_threshold=0,
        location="w.bin",
        convert_attribute=True,
    )
    monkeypatch.chdir("/")
    assert (tmp_path / "w.bin").is_file()
    assert real_shapes(path, {"x": np.ones((1, 4), np.float32)})["h"] == (1, 2)


def test_data_that_does_not_fit_is_a_sentence(written):
    path = written("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run 'model\.onnx': .*[Gg]ot invalid dimensions"):
        real_shapes(path, {"x": np.ones(3, np.float32)})
