"""Every rule that looks at a constant, with constants beside those that it looks for, on every kind of input.

A model holds a rule once for each constant, and gives its result, the logarithm of it (for which 1e-10 is not 0)
and its reciprocal (for which -0 is not +0). What passes without a tolerance leave must be the same to the last
bit; what others leave must be the same but for rounding, with NaN and infinity where they were.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.backends.onnxruntime.lowering import lowerings as onnxruntime_lowerings
from edgeopt.backends.openvino.lowering import lowerings as openvino_lowerings
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.pipeline import run_pipeline

EVERY = (*standard_passes(), *onnxruntime_lowerings(), *openvino_lowerings())
NUMBERS = (
    *(0.0, -0.0, 1e-3, -1e-3, 1e-7, 1e-10, -1e-10, 1e-30, 1e-40, 1e-45),
    *(1.0, 1 - 1e-6, 1 + 1e-6, 1 + 1.2e-7, -1.0, 0.5, 2.0, 1e4, 1e30, 3e38),
    *(np.nan, np.inf, -np.inf),
)
SHAPES = ((1,), (1, 1), (1, 1, 1), (3, 1), (1, 4), (3, 4), (4,))
TINY = 1.2e-38
"""Below it float32 has fewer digits, and none at last."""
NOISE = np.random.default_rng(17).standard_normal((3, 4))
REGIMES = {
    "ordinary": NOISE,
    "silence": np.zeros((3, 4)),
    "negative zeros": np.full((3, 4), -0.0),
    "nearly silent": NOISE * 1e-6,
    "hardly anything": NOISE * 1e-12,
    "subnormal": NOISE * 1e-40,
    "loud": NOISE * 100,
    "constant": np.full((3, 4), -0.7),
    "one alone": np.eye(3, 4),
    "no numbers": np.array([np.nan, np.inf, -np.inf, 0] * 3).reshape(3, 4),
}


@dataclass(frozen=True)
class Rule:
    """`nodes` lead from x (3 x 4), or r (the same with four dimensions), and the constant c# to b#."""

    pass_name: str
    nodes: str
    numbers: tuple[float, ...] = NUMBERS
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes that constants of 0 and 1 have as well."""
    form: tuple[int, ...] = ()
    opset: int = 17

    @property
    def tolerance(self):
        return next(one for one in EVERY if one.name == self.pass_name).tolerance_db


def _each(pass_name, *every, **more):
    return tuple(Rule(pass_name, nodes, **more) for nodes in every)


FINITE = tuple(n for n in NUMBERS if np.isfinite(n))
RULES = (
    *_each(
        "identities", "b# = Add(x, c#)", "b# = Add(c#, x)", "b# = Sub(x, c#)", "b# = Sub(c#, x)", shapes=SHAPES
    ),
    *_each(
        "identities", "b# = Mul(x, c#)", "b# = Mul(c#, x)", "b# = Div(x, c#)", "b# = Div(c#, x)", shapes=SHAPES
    ),
    *_each(
        "rewrite-patterns",
        "a# = Min(x, c#)  b# = Max(a#, half)",
        "a# = Max(x, c#)  b# = Min(a#, half)",
        "a# = Min(x, c#)  b# = Min(a#, half)",
        "a# = Max(x, half)  b# = Max(a#, c#)",
        shapes=SHAPES,
    ),
    *_each(
        "rewrite-patterns",
        "a# = Clip(x, c#, one)  b# = Clip(a#, half, two)",
        "a# = Clip(x, half, c#)  b# = Clip(a#, one, two)",
        "a# = Clip(x, zero, one)  b# = Clip(a#, c#, two)",
        "a# = Clip(x, half, c#)  b# = Relu(a#)",
        "a# = Relu(x)  b# = Clip(a#, c#, two)",
        "a# = Relu(x)  b# = Clip(a#, half, c#)",
        "p# = Pad(r, pads, c#)  b# = Conv(p#, w)",
    ),
    *_each("rewrite-patterns", "b# = Conv(r, w, c#)", "b# = ConvTranspose(r, w, c#)", form=(1,)),
    *_each("rewrite-patterns", "b# = Gemm(x, g, c#)", shapes=((3, 1), (1, 4), (3, 4), (4,))),
    *_each(
        "constant-chains",
        "a# = Add(x, c#)  b# = Add(a#, one)",
        "a# = Add(x, one)  b# = Add(a#, c#)",
        "a# = Add(x, c#)  b# = Sub(a#, c#)",
        "a# = Add(x, c#)  d# = Mul(a#, two)  b# = Sub(d#, one)",
        "a# = Mul(x, c#)  b# = Mul(a#, two)",
        "a# = Mul(x, c#)  b# = Div(a#, c#)",
        "a# = Add(x, zero)  b# = Mul(a#, c#)",
        "a# = Sub(c#, x)  b# = Mul(a#, two)",
        shapes=SHAPES,
    ),
    *_each(
        "scale-into-linear",
        "a# = Conv(r, w)  b# = Add(a#, c#)",
        "a# = Conv(r, w, bias)  b# = Add(a#, c#)",
        "a# = Conv(r, w)  b# = Mul(a#, c#)",
        "a# = Mul(r, c#)  b# = Conv(a#, w)",
        "a# = Add(r, c#)  b# = Conv(a#, w)",
        "a# = Gemm(x, g, bias)  b# = Add(a#, c#)",
        "a# = MatMul(x, g)  b# = Div(a#, c#)",
        numbers=FINITE,
        shapes=((1,), (1, 1)),
    ),
    *_each(
        "batchnorm-into-conv",
        "a# = Conv(r, w)  b# = BatchNormalization <epsilon = 1e-30> (a#, bias, bias, bias, c#)",
        "a# = Conv(r, w)  b# = BatchNormalization <epsilon = 0.0> (a#, bias, bias, bias, c#)",
        "a# = Conv(r, w)  b# = BatchNormalization (a#, c#, bias, bias, bias)",
        numbers=tuple(n for n in FINITE if n >= 0),
        form=(1,),
    ),
    *_each(
        "operator-forms",
        "b# = Div(x, c#)",
        "b# = Max(x, c#)",
        "a# = Mul(x, c#)  b# = Max(x, a#)",
        "b# = PRelu(x, c#)",
        "a# = Relu(x)  b# = Min(a#, c#)",
        shapes=((1,), (1, 1)),
    ),
    *_each("operator-forms", "k# = Abs(x)  b# = Pow(k#, c#)", numbers=tuple(n for n in FINITE if abs(n) < 10)),
    *_each(
        "layer-normalization",
        """m# = ReduceMean <axes = [-1]> (x)  d# = Sub(x, m#)  q# = Mul(d#, d#)  v# = ReduceMean <axes = [-1]> (q#)
           e# = Add(v#, c#)  s# = Sqrt(e#)  b# = Div(d#, s#)""",
    ),
    *_each(
        "rms-normalization",
        """q# = Mul(x, x)  v# = ReduceMean <axes = [-1]> (q#)  e# = Add(v#, c#)  s# = Sqrt(e#)  b# = Div(x, s#)""",
        opset=23,
    ),
    *_each("ort-forms", "k# = Abs(x)  b# = Pow(k#, c#)", numbers=tuple(n for n in FINITE if abs(n) < 10)),
    *_each(
        "ort-forms", "a# = Add(x, three)  d# = Clip(a#, zero, six)  b# = Mul(d#, c#)", numbers=(*FINITE, 1 / 6)
    ),
)
TOGETHER = (*RULES[:8], *RULES[8::3])
"""All that change nothing, and some others: once more with every pass that there is."""
WEIGHTS = {
    "zero": 0.0, "half": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "six": 6.0, "bias": [0.5],
    "w": np.array([[[[0.5, -1], [2, 0.25]]]]), "g": np.sin(np.arange(16)).reshape(4, 4),
}  # fmt: skip
WHOLE = {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "four": [1, 1, 3, 4], "last": [-1]}


@pytest.fixture
def model_of(make_model, shaped):
    """A model that holds a rule once for each of its constants."""

    def make(rule):
        arrays = [np.full(rule.form, number, np.float32) for number in rule.numbers]
        arrays += [np.full(shape, number, np.float32) for shape in rule.shapes for number in (0, 1)]
        text, outputs, constants = "r = Reshape(x, four)", [], {}
        body = rule.nodes.replace("<axes = [-1]> (x)", "(x, last)") if rule.opset >= 18 else rule.nodes
        if rule.opset >= 18:
            body = body.replace("<axes = [-1]> (q#)", "(q#, last)")
        for number, array in enumerate(arrays):
            more = "z# = Neg(b#)  l# = Log(b#)  i# = Reciprocal(b#)"
            text += f"  {body}  {more}".replace("#", f"_{number}")
            outputs += [f"float {kind}_{number}" for kind in "zli"]
            constants[f"c_{number}"] = array
        weights = {k: np.float32(v) for k, v in WEIGHTS.items()} | {k: np.int64(v) for k, v in WHOLE.items()}
        text = f"g (float[3,4] x) => ({', '.join(outputs)}) {{ {text} }}"
        used = {name: array for name, array in weights.items() if _reads(text, name)}
        return shaped(make_model(text, opset=rule.opset, ir_version=10, **used, **constants))

    return make


def _reads(text, name):
    return any(f"{before}{name}{behind}" in text for before in "( " for behind in ",)")


def _same_bits(wanted, got):
    return (wanted == got) & (np.signbit(wanted) == np.signbit(got)) | (np.isnan(wanted) & np.isnan(got))


def _same_but_for_rounding(wanted, got, rtol=1e-5, logarithm=False):
    """Numbers lose digits beside larger ones; NaN and infinity stay; zeros may change their sign."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        largest = np.abs(wanted[finite]).max(initial=0)
        near = np.abs(wanted - got) <= (0.05 if logarithm else rtol * np.abs(wanted) + 0.1 * rtol * largest + TINY)
        return np.where(finite, near, (wanted == got) | (np.isnan(wanted) & np.isnan(got)))


def _wrong(rule, model, simplified, exact):
    """What differs, as sentences; the outputs come in threes: the result, its logarithm, its reciprocal."""
    found, evaluators = [], [ReferenceEvaluator(ir.to_proto(one)) for one in (model, simplified)]
    for regime, x in REGIMES.items():
        if regime == "subnormal" and not exact:
            continue  # scaled up, their few digits show
        before, after = (one.run(None, {"x": x.astype(np.float32)}) for one in evaluators)
        for place in range(0, len(before), 3):
            wanted, got = before[place : place + 3], after[place : place + 3]
            if any(one.shape != other.shape for one, other in zip(wanted, got, strict=True)):
                found.append(f"{rule.nodes}, constant {place // 3}: another shape")
                continue
            same = [_same_bits(one, other) for one, other in zip(wanted, got, strict=True)]
            if not exact:
                with np.errstate(all="ignore"):
                    subnormal = (np.maximum(abs(wanted[0]), abs(got[0])) < TINY) & (wanted[0] != got[0])
                close = _same_but_for_rounding(wanted[1], got[1], logarithm=True) | subnormal
                rtol = 3e-7 if rule in RULES[:8] else 1e-5
                same = [_same_but_for_rounding(wanted[0], got[0], rtol), close]
            for kind, one in enumerate(same):
                if not one.all():
                    change = f"{wanted[kind][~one][:3]} became {got[kind][~one][:3]}"
                    found.append(f"{_constant(rule, place // 3)}, {regime}, {'zli'[kind]}: {change}")
    return found


def _constant(rule, number):
    if number < len(rule.numbers):
        return f"{rule.numbers[number]}"
    shape, one = divmod(number - len(rule.numbers), 2)
    return f"{one} of shape {rule.shapes[shape]}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.pass_name}: {' '.join(rule.nodes.split())}")
def test_a_rule_takes_only_the_constants_that_it_means(model_of, rule):
    model = model_of(rule)
    result = run_pipeline(model, only=[rule.pass_name], passes=EVERY)
    assert not [entry for entry in result.ledger if entry.rolled_back]
    assert not _wrong(rule, model.ir, result.model_ir, rule.tolerance is None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rule", TOGETHER, ids=lambda rule: f"{rule.pass_name}: {' '.join(rule.nodes.split())}")
def test_so_do_all_passes_together(model_of, rule):
    model = model_of(rule)
    result = run_pipeline(model)
    assert not [entry for entry in result.ledger if entry.rolled_back]
    assert not _wrong(rule, model.ir, result.model_ir, exact=False)
