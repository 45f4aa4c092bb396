import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.convolutions import FOCUS_INTO_CONV, PARALLEL_CONVS

RANDOM = np.random.default_rng(12)
CORNERS = {"s00": [0, 0], "s10": [1, 0], "s01": [0, 1], "s11": [1, 1]}
NUMBERS = {name: np.int64(start) for name, start in CORNERS.items()}
NUMBERS |= {"far": np.int64([2**31, 2**31]), "axes": np.int64([2, 3]), "two": np.int64([2, 2])}
FOCUS = " ".join(f"{out} = Slice(x, {name}, far, axes, two)" for out, name in zip("abcd", CORNERS, strict=True))
PICTURE = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)


def weight(channels=12):
    return RANDOM.standard_normal((5, channels, 3, 3)).astype(np.float32)


GRAPH = "g (float[1,3,8,8] x) => (float[i,j,k,l] y) {{ {} }}"
CONV = "y = Conv <pads = [1, 1, 1, 1]> (p, w)"


@pytest.mark.parametrize("text", [
    f"{FOCUS} p = Concat <axis = 1> (a, b, c, d) {CONV}",
    f"{FOCUS} p = Concat <axis = 1> (d, a, b, c) y = Conv <strides = [2, 1]> (p, w)",
    f"p = SpaceToDepth <blocksize = 2> (x) {CONV}",
])  # fmt: skip
def test_the_convolution_reads_the_picture_itself(make_model, shaped, apply_pass, text):
    model = shaped(make_model(GRAPH.format(text), w=weight(), **NUMBERS))
    result = apply_pass(FOCUS_INTO_CONV, model, 1e-4, x=PICTURE)
    conv = result.model.graph[-1]
    assert conv.op_type == "Conv"
    assert conv.inputs[0].name == "x"
    assert list(conv.attributes["kernel_shape"].as_ints()) == [6, 6]


def test_in_a_subgraph(make_model, shaped, apply_pass):
    text = f"""g (float[1,3,8,8] x, bool q) => (float[1,5,4,4] y) {{ y = If (q) <
        then_branch = t () => (float[1,5,4,4] u) {{ p = SpaceToDepth <blocksize = 2> (x) u {CONV[1:]} }},
        else_branch = e () => (float[1,5,4,4] v) {{ z = SpaceToDepth <blocksize = 2> (x) v = Conv(z, o) }} > }}"""
    one = RANDOM.standard_normal((5, 12, 1, 1)).astype(np.float32)
    result = apply_pass(
        FOCUS_INTO_CONV, shaped(make_model(text, w=weight(), o=one)), 1e-4, x=PICTURE, q=np.array(True)
    )
    assert [len(change.nodes) for change in result.applied] == [2]


@pytest.mark.parametrize(("text", "reason"), [
    ("p = SpaceToDepth <blocksize = 2> (x) z = Relu(p) " + CONV, "used elsewhere too"),
    ("p = SpaceToDepth <blocksize = 2> (x) y = Conv <dilations = [2, 2]> (p, w)", "dilated"),
    ("p = SpaceToDepth <blocksize = 2> (x) v = Abs(w) y = Conv (p, v)", "not constant"),
    ('p = SpaceToDepth <blocksize = 2> (x) y = Conv <auto_pad = "SAME_UPPER"> (p, w)', "auto_pad"),
])  # fmt: skip
def test_what_stays_says_why(make_model, shaped, apply_pass, reasons, text, reason):
    result = apply_pass(FOCUS_INTO_CONV, shaped(make_model(GRAPH.format(text), w=weight())), x=PICTURE)
    assert not result.applied
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("SpaceToDepth 'p'",)


def test_a_side_that_is_no_multiple_cannot_be_sorted_evenly(make_model, shaped, reasons):
    from edgeopt.graph.passes.base import PassContext

    text = "g (float[1,3,h,8] x) => (float[i,j,k,l] y) { p = SpaceToDepth <blocksize = 2> (x) y = Conv(p, w) }"
    result = FOCUS_INTO_CONV.apply(shaped(make_model(text, w=weight())).ir, PassContext())
    assert "multiples of 2" in reasons(result)


def test_other_slices_are_no_news(make_model, shaped, apply_pass):
    text = f"a = Slice(x, s00, far, axes, two) p = Concat <axis = 1> (a, a, a, x2) {CONV}".replace("x2", "a")
    text = text.replace("x, s00, far", "x, s00, ends")
    model = shaped(make_model(GRAPH.format(text), w=weight(), ends=np.int64([4, 4]), **NUMBERS))
    result = apply_pass(FOCUS_INTO_CONV, model, x=PICTURE)
    assert (result.applied, result.refused) == ((), ())


def test_pixels_that_nobody_reads_are_not_multiplied(make_model, shaped, apply_pass, reasons):
    text = f"a = Slice(x, s00, far, axes, two) p = Concat <axis = 1> (a) {CONV}"
    result = apply_pass(FOCUS_INTO_CONV, shaped(make_model(GRAPH.format(text), w=weight(3), **NUMBERS)), x=PICTURE)
    assert not result.applied
    assert "not read" in reasons(result)


def test_a_convolution_that_says_in_words_that_it_pads_nothing(make_model, shaped, apply_pass):
    text = 'p = SpaceToDepth <blocksize = 2> (x) y = Conv <auto_pad = "VALID"> (p, w)'
    result = apply_pass(FOCUS_INTO_CONV, shaped(make_model(GRAPH.format(text), w=weight())), 1e-4, x=PICTURE)
    assert "auto_pad" not in result.model.graph[-1].attributes


PARALLEL_RANDOM = np.random.default_rng(8)


def array(*shape):
    return PARALLEL_RANDOM.standard_normal(shape).astype(np.float32)


WEIGHTS = {"v": array(4, 3, 3, 3), "w": array(2, 3, 3, 3), "b": array(2)}
PARALLEL_GRAPH = "g (float[1,3,8,8] x) => (float[a,b,c,d] y) {{ {} }}"


def test_neighbours_become_one(make_model, apply_pass, kinds, image):
    text = (
        "p = Conv(x, v) q = Conv(x, w, b) r = MaxPool <kernel_shape = [3, 3]> (x) y = Concat <axis = 1> (p, q, r)"
    )
    result = apply_pass(PARALLEL_CONVS, make_model(PARALLEL_GRAPH.format(text), **WEIGHTS), 1e-4, x=image)
    assert kinds(result.model) == ["Conv", "MaxPool", "Concat"]
    assert result.applied[0].nodes == ("Conv 'p'", "Conv 'q'")


def test_parallel_convs_in_a_subgraph(make_model, apply_pass, kinds, image):
    text = """g (float[1,3,8,8] x, bool c) => (float[1,6,6,6] y) { y = If (c) <
        then_branch = t () => (float[1,6,6,6] u) { p = Conv(x, v) q = Conv(x, w) u = Concat <axis = 1> (p, q) },
        else_branch = e () => (float[1,6,6,6] z) { z = Conv(x, all) } > }"""
    model = make_model(text, all=array(6, 3, 3, 3), **WEIGHTS)
    result = apply_pass(PARALLEL_CONVS, model, 1e-4, x=image, c=np.array(True))
    assert kinds(result.model) == ["If", "Conv", "Concat", "Conv"]


@pytest.mark.parametrize(("text", "reason"), [
    ("p = Conv(x, v) q = Conv(x, w) r = Relu(p) y = Concat <axis = 1> (p, q, r)", "used elsewhere too"),
    ("p = Conv(x, v) y = Concat <axis = 1> (p, p)", "put there twice"),
    ("p = Conv(x, v) k = Abs(w) q = Conv(x, k) y = Concat <axis = 1> (p, q)", "not constant"),
])  # fmt: skip
def test_parallel_convs_that_stay_say_why(make_model, shaped, apply_pass, reasons, image, text, reason):
    model = shaped(make_model(PARALLEL_GRAPH.format(text), **WEIGHTS))
    result = apply_pass(PARALLEL_CONVS, model, 1e-4, x=image)
    assert reason in reasons(result)
    assert "Conv 'p'" in result.refused[0].nodes
    assert not result.applied


@pytest.mark.parametrize("text", [
    "n = Neg(x) p = Conv(x, v) q = Conv(n, w) y = Concat <axis = 1> (p, q)",
    "p = Conv <pads = [1,1,0,0]> (x, v) q = Conv <pads = [0,0,1,1]> (x, w) y = Concat <axis = 1> (p, q)",
    "p = Conv(x, v) r = MaxPool <kernel_shape = [3, 3]> (x) q = Conv(x, w) y = Concat <axis = 1> (p, r, q)",
])  # fmt: skip
def test_convolutions_that_differ_are_no_news(make_model, apply_pass, image, text):
    result = apply_pass(PARALLEL_CONVS, make_model(PARALLEL_GRAPH.format(text), **WEIGHTS), 1e-4, x=image)
    assert (result.applied, result.refused) == ((), ())


def test_channels_named_from_the_back(make_model, shaped, apply_pass, kinds, image):
    text = PARALLEL_GRAPH.format("p = Conv(x, v) q = Conv(x, w) y = Concat <axis = -3> (p, q)")
    assert kinds(apply_pass(PARALLEL_CONVS, shaped(make_model(text, **WEIGHTS)), 1e-4, x=image).model) == [
        "Conv",
        "Concat",
    ]


def test_large_weights_that_others_use_are_not_kept_twice(make_model, reasons):
    text = """g (float[1,3,8,8] x) => (float[a,b,c,d] y, float[e,f,g,h] z) {
        p = Conv(x, v) q = Conv(x, w) z = Conv(x, w) y = Concat <axis = 1> (p, q) }"""
    model = make_model(text, **WEIGHTS).ir
    assert PARALLEL_CONVS.apply(model, PassContext()).applied
    result = PARALLEL_CONVS.apply(model, PassContext(folded_limit_bytes=50))
    assert not result.applied
    assert "'w' are also used elsewhere" in reasons(result)
