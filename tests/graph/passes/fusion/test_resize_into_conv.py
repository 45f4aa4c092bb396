from itertools import product

import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.resize_into_conv import PASS

RANDOM = np.random.default_rng(14)
PICTURE = RANDOM.standard_normal((1, 2, 12, 24)).astype(np.float32)
PADDED = "pads = [1, 1, 1, 1]"


def weight(*kernel, channels=2):
    return RANDOM.standard_normal((4, channels, *(kernel or (3, 3)))).astype(np.float32)


def graph(*options, conv=PADDED, given="x, , s", between="", picture="float[1,2,12,24]"):
    """A picture that is resized, perhaps something between, and a convolution."""
    resize = ", ".join(options) or 'mode = "linear"'
    read = "p" if between else "r"
    nodes = f"r = Resize <{resize}> ({given}) {between} y = Conv <{conv}> ({read}, w)"
    return f"g ({picture} x) => (float[i,j,k,l] y) {{ {nodes} }}"


def scales(down, across):
    return np.float32([1, 1, down, across])


def window(result):
    conv = result.model.graph[-1]
    return {
        name: list(conv.attributes[name].as_ints()) for name in ("kernel_shape", "strides", "dilations", "pads")
    }


NEAREST = ('coordinate_transformation_mode = "asymmetric"', 'nearest_mode = "floor"')
SMALLER = (
    # Options, factors, the convolution, the kernel and the dilations that it gets.
    (('mode = "linear"',), (1 / 2, 1 / 2), PADDED, [6, 6], [1, 1]),
    (('mode = "linear"',), (1 / 3, 1 / 3), PADDED, [3, 3], [3, 3]),
    (('mode = "linear"',), (1 / 2, 1), "strides = [2, 1], pads = [0, 2, 1, 0]", [6, 3], [1, 1]),
    (('mode = "linear"', NEAREST[0]), (1 / 4, 1 / 2), "dilations = [1, 2]", [3, 3], [4, 4]),
    (('mode = "cubic"',), (1, 1 / 3), 'auto_pad = "SAME_UPPER"', [3, 3], [1, 3]),
    (NEAREST, (1 / 2, 1 / 4), PADDED, [3, 3], [2, 4]),
    (('nearest_mode = "ceil"',), (1 / 2, 1 / 2), PADDED, [3, 3], [2, 2]),
)


@pytest.mark.parametrize("case", SMALLER)
def test_of_a_smaller_picture_the_convolution_reads_the_larger_one(make_model, apply_pass, kinds, case):
    options, factors, conv, kernel, dilations = case
    result = apply_pass(
        PASS, make_model(graph(*options, conv=conv), w=weight(), s=scales(*factors)), 1e-4, x=PICTURE
    )
    assert kinds(result.model) == ["Conv"]
    assert (window(result)["kernel_shape"], window(result)["dilations"]) == (kernel, dilations)


def test_of_a_larger_picture_places_that_read_the_same_pixel_become_one(make_model, apply_pass, kinds):
    text = graph(*NEAREST, conv="strides = [2, 3], pads = [2, 2, 2, 2]")
    model = make_model(text, w=weight(5, 5), s=scales(2, 3))
    result = apply_pass(PASS, model, 1e-4, x=PICTURE)
    assert kinds(result.model) == ["Conv"]
    found = {"kernel_shape": [3, 2], "strides": [1, 1], "dilations": [1, 1], "pads": [1, 1, 1, 0]}
    assert window(result) == found


@pytest.mark.parametrize("given", [
    ("x, , , z", "float[1,2,12,24]", np.int64([1, 2, 6, 12])),
    ("x, , z", "float[N,2,12,24]", np.float32([1, 1, 0.5, 0.5])),
])  # fmt: skip
def test_sizes_or_factors_may_say_it(make_model, apply_pass, kinds, given):
    inputs, picture, array = given
    model = make_model(graph(given=inputs, picture=picture), w=weight(), z=array)
    assert kinds(apply_pass(PASS, model, 1e-4, x=PICTURE).model) == ["Conv"]


def test_signals_in_groups(make_model, apply_pass, kinds):
    text = """g (float[1,4,20] x) => (float[i,j,k] y) {
        r = Resize <mode = "linear", axes = [2]> (x, , s) y = Conv <group = 4> (r, w) }"""
    model = make_model(text, opset=18, w=weight(3, channels=1), s=np.float32([0.5]))
    signal = RANDOM.standard_normal((1, 4, 20)).astype(np.float32)
    assert kinds(apply_pass(PASS, model, 1e-4, x=signal).model) == ["Conv"]


def test_an_upsample_says_the_same(make_model, apply_pass, kinds):
    text = """g (float[1,2,12,24] x) => (float[i,j,k,l] y) {
        r = Upsample <mode = "nearest"> (x, s) y = Conv <strides = [2, 2]> (r, w) }"""
    result = apply_pass(PASS, make_model(text, opset=9, w=weight(), s=scales(2, 2)), 1e-4, x=PICTURE)
    assert kinds(result.model) == ["Conv"]


def test_a_pad_between_pads_the_larger_picture(make_model, apply_pass, kinds):
    text = graph('mode = "linear"', conv="strides = [2, 2]", between="p = Pad(r, amounts, number)")
    arrays = {"amounts": np.int64([0, 0, 1, 2, 0, 0, 1, 0]), "number": np.float32(0.5)}
    model = make_model(text, w=weight(), s=scales(1 / 2, 1 / 2), **arrays)
    result = apply_pass(PASS, model, 1e-4, x=PICTURE)
    assert kinds(result.model) == ["Pad", "Conv"]
    assert list(result.model.graph[0].inputs[1].const_value.numpy())[:4] == [0, 0, 2, 4]


def test_in_a_subgraph(make_model, apply_pass):
    text = f"""g (float[1,2,12,24] x, bool q) => (float[i,j,k,l] y) {{ y = If (q) <
        then_branch = t () => (float[i,j,k,l] u) {{
            r = Resize <mode = "linear"> (x, , s) u = Conv <{PADDED}> (r, w) }},
        else_branch = e () => (float[i,j,k,l] v) {{
            r = Resize <nearest_mode = "floor"> (x, , s) v = Conv <{PADDED}> (r, w) }} > }}"""
    model = make_model(text, w=weight(), s=scales(1 / 2, 1 / 2))
    result = apply_pass(PASS, model, 1e-4, x=PICTURE, q=np.array(True))
    assert len(result.applied[0].nodes) == 3  # two of the same name, and two convolutions


OPEN = {"picture": "float[1,2,H,W]"}
REFUSED = (
    ({"conv": PADDED}, ('mode = "linear"',), (2, 2), "no multiples of 2"),
    ({}, ('mode = "linear"',), (0.75, 0.5), "neither that nor its inverse is a whole number"),
    ({}, ('mode = "linear"', 'coordinate_transformation_mode = "align_corners"'), (0.5, 0.5), "alike"),
    ({"conv": "strides = [2, 2]"}, ('mode = "linear"',), (2, 2), "alike (linear, half_pixel)"),
    ({}, ('mode = "linear"', "antialias = 1"), (0.5, 0.5), "antialias"),
    ({}, ('mode = "cubic"',), (0.5, 0.5), "cubic"),
    ({}, NEAREST, (1 / 3, 1), "how a runtime rounds"),
    ({}, ('mode = "linear"',), (0.25, 0.25), "1.6 times as long as both do now"),
    (OPEN, ('mode = "linear"',), (0.5, 0.5), "--shape fixes that"),
    ({"between": "z = Relu(r) p = Identity(r)"}, ('mode = "linear"',), (0.5, 0.5), None),
    ({"between": "z = Relu(r) p = Pad(r, a)"}, ('mode = "linear"',), (0.5, 0.5), "used elsewhere too"),
    ({"between": "p = Pad(r, a)"}, ('mode = "linear"',), (0.5, 0.5), "both pad"),
    ({"between": 'p = Pad <mode = "edge"> (r, a)', "conv": "group = 1"}, (), (0.5, 0.5), "repeats pixels (edge)"),
)


@pytest.mark.parametrize("case", REFUSED)
def test_what_stays_says_why(make_model, apply_pass, kinds, reasons, case):
    how, options, factors, reason = case
    amounts = np.int64([0, 0, 1, 1, 0, 0, 1, 1])
    text = graph(*options, **how)
    model = make_model(text, opset=18, w=weight(), s=scales(*factors), a=amounts)
    result = apply_pass(PASS, model, x=PICTURE)
    assert kinds(result.model) == kinds(model.ir)
    assert not result.applied
    assert not result.refused if reason is None else reason in reasons(result)
    assert all(refusal.nodes == ("Resize 'r'",) for refusal in result.refused)


def test_rows_left_over_would_be_mixed_with_what_is_padded(make_model, apply_pass, reasons):
    """Of 13 rows a half are 6, and the 13th is where the convolution wants zeros."""
    model = make_model(graph(picture="float[1,2,13,24]"), w=weight(), s=scales(0.5, 0.5))
    result = apply_pass(PASS, model, x=RANDOM.standard_normal((1, 2, 13, 24)).astype(np.float32))
    assert "would be mixed with pixels" in reasons(result)


def test_what_a_pad_alone_fills_is_no_part_of_the_picture(make_model, apply_pass, reasons):
    text = graph(*NEAREST, conv="strides = [9, 9]", between="p = Pad(r, a, number)")
    arrays = {"a": np.int64([0, 0, 3, 3, 0, 0, 3, 3]), "number": np.float32(2)}
    model = make_model(text, w=weight(), s=scales(1 / 2, 1 / 4), **arrays)
    assert "nothing but what the Pad" in reasons(apply_pass(PASS, model, x=PICTURE))


def test_whatever_it_takes_on_computes_the_same(make_model, apply_pass):
    """Random windows over random sizes, in every mode; many are refused, and each mode is taken on somewhere."""
    taken = set()
    places = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")
    for mode, place in product(("nearest", "linear", "cubic"), places):
        for _ in range(8):
            rounding = RANDOM.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
            factors = RANDOM.choice([1 / 4, 1 / 3, 1 / 2, 1, 2], 2)
            sides = [
                int(size) for size in RANDOM.integers(4, 9, 2) * np.maximum(1, 1 / factors).round().astype(int)
            ]
            sides[0] += int(RANDOM.choice([0, 0, 1]))
            kernel, strides = RANDOM.integers(1, 4, 2), RANDOM.integers(1, 5, 2)
            options = (
                f'mode = "{mode}"',
                f'coordinate_transformation_mode = "{place}"',
                f'nearest_mode = "{rounding}"',
            )
            conv = f"strides = {strides.tolist()}, pads = {RANDOM.integers(0, kernel.repeat(2)).tolist()}"
            text = graph(*options, conv=conv, picture=f"float[1,2,{sides[0]},{sides[1]}]")
            model = make_model(text, opset=19, w=weight(*kernel), s=scales(*factors))
            result = apply_pass(PASS, model, 1e-4, x=RANDOM.standard_normal((1, 2, *sides)).astype(np.float32))
            taken |= {mode} if result.applied else set()
    assert taken == {"nearest", "linear", "cubic"}


def test_it_runs_on_request_alone(make_model):
    assert PASS.on_request
    text = "g (float[1,2,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }"
    result = PASS.apply(make_model(text, w=weight()).ir, PassContext())
    assert (result.applied, result.refused) == ((), ())
