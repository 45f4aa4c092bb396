"""What is wrong with a file for before or after a model is said before the long work, with both sides."""

import numpy as np
import onnx
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.processing.attach import attach
from edgeopt.errors import EdgeoptError

X = TensorInfo("x", "float32", ("batch", 3, 16, 16))
Y = TensorInfo("y", "float32", ("batch", 10))
STEPS = '[[steps]]\ndo = "{}"\non = "{}"\n'

TEXTS = (
    (
        "pre",
        "[data]\ncrop = [12]",
        r"makes \[1, 3, 12, 12\] of a picture; the model takes 'x' as \[batch, 3, 16, 16",
    ),
    ("pre", '[data]\ncrop = [16]\ninput = "z"', r"\[data\] in 'it.toml' names the input 'z'; the model takes x\."),
    ("pre", "[data]\ncrp = [16]", r"the table \[data\] has no key 'crp'"),
    ("pre", '[data]\ncolour_order = "red"', r"colour_order in \[data\] does not know 'red'"),
    ("pre", '[data]\ncrop = [16]\ndtype = "uint8"', r"gives 'x' as uint8 .*; the model takes float32"),
    ("pre", '[[steps]]\ndo = "softmax"', r"the table \[data\] is missing"),
    ("pre", "[data\n", "is not valid TOML"),
    ("post", '[[steps]]\ndo = "sofmax"\non = "y"', r"step 1 does not know 'sofmax'"),
    ("post", STEPS.format("softmax", "z"), r"Step 1 in 'it.toml' \(softmax\) reads 'z'; available: y\."),
    ("post", STEPS.format("softmax", "y") + "k = 1", r"step 1 \(softmax\) has no key 'k'"),
    ("post", STEPS.format("top-k", "y"), r"step 1 \(top-k\): .*missing required field `k`"),
    ("post", STEPS.format("top-k", "y") + "k = 11", r"cannot take 'y': its axis -1 has 10 values, fewer than 11"),
    (
        "post",
        STEPS.format("rename", "y") + 'to = "z"\n' + STEPS.format("argmax", "y"),
        r"Step 2 .* available: z\.",
    ),
    ("post", "steps = 1", r"the table \[\[steps\]\] is missing"),
    ("post", "[data]\n", r"has no key 'data'; postprocessing is a list of \[\[steps\]\]"),
)


@pytest.mark.parametrize(("place", "text", "said"), TEXTS)
def test_a_mistake_in_a_declaration_is_one_sentence_with_a_next_step(place, text, said, tmp_path):
    path = tmp_path / "it.toml"
    path.write_text(text)
    with pytest.raises(EdgeoptError, match=said) as caught:
        attach(**{"pre": None, "post": None, place: path}, inputs=[X], outputs=[Y])
    assert caught.value.hint
    assert caught.value.exit_code in {2, 3}


def test_names_and_types_of_onnx_files_must_fit_the_model(pre_model, post_model):
    wrong = (
        ({"pre": post_model, "post": None}, r"--pre 'post\.onnx' gives chance; the model takes x\."),
        ({"pre": None, "post": pre_model}, r"--post 'pre\.onnx' takes image; the model gives y\."),
        ({"pre": pre_model.with_suffix(".txt"), "post": None}, r"'pre\.txt' is neither an ONNX file nor a TOML"),
    )
    for given, said in wrong:
        with pytest.raises(EdgeoptError, match=said):
            attach(**given, inputs=[X], outputs=[Y])
    smaller = TensorInfo("x", "float32", ("batch", 3, 8, 8))
    with pytest.raises(
        EdgeoptError, match=r"gives 'x' as float32 \[n, 3, 16, 16\]; the model takes float32 \[batch, 3"
    ):
        attach(pre_model, None, [smaller], [Y])
    with pytest.raises(EdgeoptError, match="writes 'chance', which is also an output"):
        attach(None, post_model, [X], [Y, TensorInfo("chance", "float32", (1,))])


def test_weights_in_another_file_are_refused(post_model, tmp_path):
    model = onnx.load(post_model)
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    model.graph.initializer.append(weight)
    path = tmp_path / "post.onnx"
    onnx.save(model, path, save_as_external_data=True, location="post.bin", size_threshold=0)
    with pytest.raises(EdgeoptError, match=r"--post 'post\.onnx' has weights in other files"):
        attach(None, path, [X], [Y])


def test_what_processing_does_not_take_is_handed_on(post_model, camera):
    mask, boxes = TensorInfo("mask", "float32", (1,)), TensorInfo("boxes", "float32", (1, 4))
    found = attach(None, post_model, [X, mask], [Y, boxes]).processing
    assert [each.name for each in found.post.inputs] == ["y"]
    with pytest.raises(EdgeoptError, match=r"names no input for the pictures; the model takes x, mask\."):
        attach(camera, None, [X, mask], [Y])
