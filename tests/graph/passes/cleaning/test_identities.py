import re

import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.identities import PASS

X = np.float32([[1, -2, 3], [4, 5, -6]])


def wrapped(nodes, head="float[2,3] x"):
    """A chain from x over `nodes`, which lead from a to b, to y."""
    return f"g ({head}) => (float[2,3] y) {{ a = Relu(x)  {nodes}  y = Neg(b) }}"


WITHOUT_EFFECT = (
    "b = Identity(a)",
    "b = Dropout(a)",
    "b = Cast <to = 1> (a)",
    "t = Transpose <perm = [1, 0]> (a)  b = Transpose <perm = [1, 0]> (t)",
    "t = Transpose(a)  b = Transpose(t)",
    "b = Transpose <perm = [0, 1]> (a)",
    "b = Concat <axis = 0> (a)",
    "b = Sum(a)",
    "b = Pad(a, zeros)",
    "b = Expand(a, ones)",
    "b = Reshape(a, same)",
    "b = Flatten(a)",
    "w = Cast <to = 11> (a)  b = Cast <to = 1> (w)",
    "b = CastLike(a, zerosf)",
    "u = Unsqueeze(a, at1)  b = Squeeze(u, at1)",
    "b = Slice(a, zeros2, ends, axes)",
    "b = Tile(a, ones)",
    "p, q = Split <axis = 1> (a, parts)  b = Concat <axis = -1> (p, q)",
)
WEIGHTS = {"zeros": np.zeros(4, np.int64), "ones": np.ones(2, np.int64), "same": np.int64([2, 3])}
WEIGHTS |= {"zerosf": np.zeros(1, np.float32), "at1": np.int64([1]), "zeros2": np.int64([0, 0])}
WEIGHTS |= {"ends": np.int64([2, 2**31 - 1]), "axes": np.int64([0, 1]), "parts": np.int64([1, 2])}


@pytest.mark.parametrize("nodes", WITHOUT_EFFECT)
def test_what_changes_nothing_goes_away(make_model, apply_pass, kinds, shaped, nodes):
    weights = {name: array for name, array in WEIGHTS.items() if name in re.findall(r"\w+", nodes)}
    model = shaped(make_model(wrapped(nodes), **weights))
    result = apply_pass(PASS, model, x=X)
    firsts = {"Transpose", "Cast", "Unsqueeze", "Split"}  # the first of a pair is dead now, another pass's work
    left = [kind for kind in kinds(result.model) if kind not in firsts]
    assert left == ["Relu", "Neg"]
    assert len(kinds(result.model)) <= 3
    assert "without effect" in result.applied[0].what


WITH_EFFECT = (
    "t = Transpose <perm = [1, 0]> (a)  b = Reshape(t, same)",
    "p = Pad(a, one)  b = Slice(p, s, e)",
    "i = Cast <to = 7> (a)  b = Cast <to = 1> (i)",
    "h = Cast <to = 10> (a)  b = Cast <to = 1> (h)",
    "b = Clip(a)",
    "p, q = Split <axis = 1> (a, parts)  b = Concat <axis = 1> (q, p)",
    "r = Slice(a, zeros2, short, axes)  b = Pad(r, widen)",
)


@pytest.mark.parametrize("nodes", WITH_EFFECT)
def test_real_work_stays(make_model, apply_pass, kinds, shaped, nodes):
    every = {**WEIGHTS, "one": np.int64([0, 0, 1, 0]), "s": np.int64([1, 0]), "e": np.int64([3, 3]),
        "short": np.int64([2, 2]), "widen": np.int64([0, 0, 0, 1])}  # fmt: skip
    weights = {name: array for name, array in every.items() if f", {name}" in nodes}
    model = shaped(make_model(wrapped(nodes), **weights))
    result = apply_pass(PASS, model, x=X)
    assert kinds(result.model) == kinds(model.ir)


def test_a_clip_of_integers_without_limits_goes_away(make_model, kinds, shaped):
    text = "g (int64[2,3] x) => (int64[2,3] y) { a = Neg(x)  b = Clip(a)  y = Neg(b) }"
    assert kinds(PASS.apply(shaped(make_model(text)).ir, PassContext()).model) == ["Neg", "Neg"]


def test_an_input_that_is_an_output_keeps_its_identity(make_model, apply_pass, kinds):
    model = make_model("g (float[2,3] x) => (float[2,3] y) { y = Identity(x) }")
    assert kinds(apply_pass(PASS, model, x=X).model) == ["Identity"]


def test_the_last_node_gives_its_name_to_the_one_before(make_model, apply_pass):
    model = make_model("g (float[2,3] x) => (float[2,3] y) { a = Relu(x)  y = Dropout(a) }")
    result = apply_pass(PASS, model, x=X)
    assert [(n.op_type, n.outputs[0].name) for n in result.model.graph] == [("Relu", "y")]


def test_a_dropout_in_training_stays_with_the_reason(make_model, reasons, kinds):
    from edgeopt.graph.passes.base import PassContext

    text = wrapped("b = Dropout(a, r, on)", head="float[2,3] x, bool on")
    result = PASS.apply(make_model(text, r=np.float32(0.5)).ir, PassContext())
    assert "training mode" in reasons(result)
    assert "Dropout" in kinds(result.model)


def test_a_value_from_outside_stays_the_result_of_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2,3] x) => (float[2,3] y) {
        r = Relu(x)
        y = If (c) <then_branch = t () => (float[2,3] a) { a = Identity(r) },
                    else_branch = e () => (float[2,3] b) { n = Neg(r)  b = Identity(n) }> }"""
    result = apply_pass(PASS, make_model(text), x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["Identity", "If", "Neg", "Relu"]


PICTURE = (
    'b = Resize <mode = "linear"> (a, , once)',
    'b = Resize <mode = "nearest"> (a, , , size)',
    "b = MaxPool <kernel_shape = [1, 1]> (a)",
    "b = AveragePool <kernel_shape = [1, 1], strides = [1, 1]> (a)",
)


@pytest.mark.parametrize("nodes", PICTURE)
def test_a_picture_that_stays_as_it_is(make_model, apply_pass, kinds, shaped, nodes):
    weights = {"once": np.ones(4, np.float32), "size": np.int64([1, 1, 4, 4])}
    text = f"g (float[1,1,4,4] x) => (float[1,1,4,4] y) {{ a = Relu(x)  {nodes}  y = Neg(b) }}"
    model = shaped(make_model(text, **{k: v for k, v in weights.items() if k in nodes}))
    given = np.random.default_rng(1).standard_normal((1, 1, 4, 4)).astype(np.float32)
    assert kinds(apply_pass(PASS, model, x=given).model) == ["Relu", "Neg"]


def test_a_picture_of_another_size_is_resized(make_model, apply_pass, kinds, shaped):
    text = 'g (float[1,1,4,4] x) => (float[1,1,8,8] y) { y = Resize <mode = "nearest"> (x, , s) }'
    model = shaped(make_model(text, s=np.float32([1, 1, 2, 2])))
    given = np.ones((1, 1, 4, 4), np.float32)
    assert kinds(apply_pass(PASS, model, x=given).model) == ["Resize"]
