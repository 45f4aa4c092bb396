"""Which of two ways to write the same operator a runtime runs faster: contests of small models, a row each.

python benchmarks/operator_forms.py [NAME...] [--seconds 12] [--busy]

The passes of `edgeopt/graph/passes/` choose their form by this table (docs/graph.md). The two models of a row give
the same results, which is checked first. Without names all rows run, which takes half an hour.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Session
from edgeopt.data.read import load_data
from edgeopt.data.samples import save_samples
from edgeopt.events import ignore
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest
from edgeopt.measure.messages import Load
from edgeopt.measure.sequential import Rules
from edgeopt.measure.stats import SAME, sign_interval
from edgeopt.workers.host import LocalHost

BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
EXACT: dict[str, dict[str, str]] = {"onnxruntime-cpu": {}, "openvino-cpu": {"precision": "f32"}}
RANDOM = np.random.default_rng(0)
EQUAL_DB = 100.0
LEGS = 3
MAX_ROUNDS = 300
SLICE_S = 0.01
Judge = Callable[[str, list[Path], dict[str, Array], Path, float], str]


def array(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.asarray(numbers, np.int64)


def number(**values: float) -> dict[str, Array]:
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def around_diagonal(channels: int) -> Array:
    """The weights of a 1x1 convolution that only turns its channels round."""
    return np.eye(channels, dtype=np.float32)[::-1].reshape(channels, channels, 1, 1).copy()


@dataclass(frozen=True)
class Row:
    name: str
    one: str
    other: str
    shape: tuple[int, ...]
    """Of the input x."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 17


PICTURE = (1, 64, 56, 56)
TOKENS = (1, 128, 384)
SOUND = (1, 256, 512)


def two_by_two() -> dict[str, Array]:
    """A transposed convolution whose kernel is its stride, and the 1x1 convolution that gives the same."""
    w = array(64, 32, 2, 2)
    return {"w": w, "v": w.transpose(1, 2, 3, 0).reshape(128, 64, 1, 1).copy()}


def four_by_four(w: Array) -> dict[str, Array]:
    """A transposed convolution 4x4 with stride 2, and the 3x3 convolution that gives each place's four results."""
    # Even places see the taps 3 and 1, odd ones 2 and 0; a tap more stands for zero.
    taps = np.concatenate([w, np.zeros_like(w[:, :, :1])], axis=2)
    taps = np.concatenate([taps, np.zeros_like(taps[..., :1])], axis=3)
    rows = np.asarray([[3, 1, 4], [4, 2, 0]])
    parts = taps[:, :, rows][..., rows]  # in, out, place in y, tap in y, place in x, tap in x
    v = parts.transpose(1, 2, 4, 0, 3, 5).reshape(w.shape[1] * 4, w.shape[0], 3, 3)
    return {"w": w, "v": v.copy()}


def four_by_four_by_channel() -> dict[str, Array]:
    """The same for each channel by itself."""
    w = array(64, 1, 4, 4)
    single = [four_by_four(w[k : k + 1])["v"] for k in range(64)]
    return {"w": w, "v": np.concatenate(single)}


def sorted_pixels() -> dict[str, Array]:
    w, wide = array(16, 12, 3, 3), np.zeros((16, 3, 6, 6), np.float32)
    for group, (i, j) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        wide[:, :, i::2, j::2] = w[:, group * 3 : group * 3 + 3]
    return {"w": w, "v": wide}


def wider(groups: int, merged: int) -> dict[str, Array]:
    """A convolution of 64 channels in groups, and one in fewer groups with zeros between."""
    width = 64 // groups
    w, v = array(64, width, 3, 3), np.zeros((64, width * merged, 3, 3), np.float32)
    for row in range(64):
        begin = row // width % merged * width
        v[row, begin : begin + width] = w[row]
    return {"w": w, "v": v}


def joined(name: str, axis: int, **weights: Array) -> dict[str, Array]:
    return {**weights, name: np.concatenate(list(weights.values()), axis=axis)}


def patches() -> dict[str, Array]:
    w = array(192, 3, 16, 16)
    return {"w": w, "v": w.reshape(192, 768).T.copy(), "flat": whole(1, 192, 196),
            "cut": whole(1, 3, 14, 16, 14, 16), "rows": whole(1, 196, 768)}  # fmt: skip


ONE_D = {"two": whole(2)}
ON_TWO = "a = Unsqueeze(x, two) b = Conv <{}> (a, v) y = Squeeze(b, two)"
DEPTHWISE, DENSE = array(256, 1, 9), array(64, 64, 9)
SQUARE = array(384, 384)
# What reads `c` reads the result of a convolution of the input, as it would in a model.
ROWS = (
    Row("global-mean", "y = ReduceMean <axes = [2, 3]> (c)", "y = GlobalAveragePool(c)", PICTURE),
    Row("global-max", "y = ReduceMax <axes = [2, 3]> (c)", "y = GlobalMaxPool(c)", PICTURE),
    Row("divide", "y = Div(c, s)", "y = Mul(c, r)", PICTURE,
        number(s=3.0, r=1 / 3)),
    Row("square", "y = Pow(c, two)", "y = Mul(c, c)", PICTURE, number(two=2.0)),
    Row("cube", "y = Pow(c, three)", "a = Mul(c, c) y = Mul(a, c)", PICTURE, number(three=3.0)),
    Row("square-root", "a = Abs(c) y = Pow(a, half)", "a = Abs(c) y = Sqrt(a)", PICTURE, number(half=0.5)),
    Row("relu-of-max", "y = Max(c, zero)", "y = Relu(c)", PICTURE, number(zero=0)),
    Row("clip-of-min", "a = Relu(c) y = Min(a, six)", "y = Clip(c, zero, six)", PICTURE, number(zero=0, six=6)),
    Row("leaky-relu-of-slope", "y = PRelu(c, slope)", "y = LeakyRelu <alpha = 0.25> (c)", PICTURE,
        {"slope": np.full((1, 1, 1), 0.25, np.float32)}),
    Row("leaky-relu-of-max", "a = Mul(c, slope) y = Max(c, a)", "y = LeakyRelu <alpha = 0.25> (c)", PICTURE,
        number(slope=0.25)),
    Row("hard-sigmoid", "a = Add(c, three) b = Clip(a, zero, six) y = Div(b, six)",
        "y = HardSigmoid <alpha = 0.1666666716337204, beta = 0.5> (c)", PICTURE, number(three=3, zero=0, six=6)),
    Row("hard-swish", "a = Add(c, three) b = Clip(a, zero, six) d = Mul(c, b) y = Div(d, six)", "y = HardSwish(c)",
        PICTURE, number(three=3, zero=0, six=6)),
    Row("hard-swish-of-hard-sigmoid", "a = HardSigmoid <alpha = 0.1666666716337204, beta = 0.5> (c) y = Mul(c, a)",
        "y = HardSwish(c)", PICTURE),
    Row("swish", "s = Sigmoid(c) y = Mul(c, s)", "y = Swish(c)", PICTURE, opset=24),
    Row("mish", "s = Softplus(c) t = Tanh(s) y = Mul(c, t)", "y = Mish(c)", PICTURE, opset=18),
    Row("transposed-convolution", "y = ConvTranspose <strides = [2, 2]> (c, w)",
        "d = Conv(c, v) y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (d)", PICTURE, two_by_two()),
    Row("transposed-convolution-4x4", "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (c, w)",
        "d = Conv <pads = [1, 1, 1, 1]> (c, v) y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (d)", PICTURE,
        four_by_four(array(64, 32, 4, 4))),
    Row("transposed-depth-wise",
        "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], group = 64> (c, w)",
        "d = Conv <pads = [1, 1, 1, 1], group = 64> (c, v) y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (d)",
        PICTURE, four_by_four_by_channel()),
    Row("depth-wise-1x1", "y = Conv <group = 64> (c, w)", "y = Mul(c, v)", PICTURE,
        {"w": (scales := array(64, 1, 1, 1)), "v": scales.reshape(1, 64, 1, 1)}),
    Row("depth-wise-twofold", "y = Conv <group = 64, pads = [1, 1, 1, 1]> (c, w)",
        "a = Gather <axis = 1> (c, twice) y = Conv <group = 128, pads = [1, 1, 1, 1]> (a, w)", PICTURE,
        {"w": array(128, 1, 3, 3), "twice": np.repeat(np.arange(64), 2)}),
    Row("depth-wise-fourfold", "y = Conv <group = 64, pads = [1, 1, 1, 1]> (c, w)",
        "a = Gather <axis = 1> (c, often) y = Conv <group = 256, pads = [1, 1, 1, 1]> (a, w)", PICTURE,
        {"w": array(256, 1, 3, 3), "often": np.repeat(np.arange(64), 4)}),
    Row("groups-of-eight", "y = Conv <group = 8, pads = [1, 1, 1, 1]> (c, w)",
        "y = Conv <group = 4, pads = [1, 1, 1, 1]> (c, v)", PICTURE, wider(8, 2)),
    Row("narrow-groups", "y = Conv <group = 16, pads = [1, 1, 1, 1]> (c, w)",
        "y = Conv <group = 4, pads = [1, 1, 1, 1]> (c, v)", PICTURE, wider(16, 4)),
    Row("narrow-groups-as-one", "y = Conv <group = 16, pads = [1, 1, 1, 1]> (c, w)",
        "y = Conv <pads = [1, 1, 1, 1]> (c, v)", PICTURE, wider(16, 16)),
    Row("depth-wise-1d", "y = Conv <group = 256, pads = [4, 4]> (x, w)",
        ON_TWO.format("group = 256, pads = [0, 4, 0, 4]"), SOUND,
        {"w": DEPTHWISE, "v": DEPTHWISE[:, :, None], **ONE_D}),
    Row("convolution-1d", "y = Conv <pads = [4, 4]> (x, w)", ON_TWO.format("pads = [0, 4, 0, 4]"), (1, 64, 1000),
        {"w": DENSE, "v": DENSE[:, :, None], **ONE_D}),
    Row("pointwise-1d", "y = Conv(x, w)", "y = MatMul(v, x)", (1, 384, 128),
        {"w": SQUARE[:, :, None], "v": SQUARE}),
    Row("pointwise-1d-with-bias", "y = Conv(x, w, b)", "a = MatMul(v, x) y = Add(a, d)", (1, 384, 128),
        {"w": SQUARE[:, :, None], "v": SQUARE, "b": (shifts := array(384)), "d": shifts[:, None]}),
    Row("pointwise", "y = Conv(c, w)", "a = Reshape(c, flat) b = MatMul(v, a) y = Reshape(b, four)", PICTURE,
        {"w": (mixing := array(64, 64, 1, 1)), "v": mixing.reshape(64, 64), "flat": whole(1, 64, 3136),
         "four": whole(*PICTURE)}),
    Row("patches",
        "a = Conv <strides = [16, 16]> (x, w) b = Reshape(a, flat) y = Transpose <perm = [0, 2, 1]> (b)",
        "a = Reshape(x, cut) b = Transpose <perm = [0, 2, 4, 1, 3, 5]> (a) d = Reshape(b, rows) y = MatMul(d, v)",
        (1, 3, 224, 224), patches()),
    Row("channel-shuffle",
        "a = Reshape(c, five) b = Transpose <perm = [0, 2, 1, 3, 4]> (a) y = Reshape(b, four)",
        "y = Gather <axis = 1> (c, order)", PICTURE,
        {"five": whole(1, 2, 32, 56, 56), "four": whole(1, 64, 56, 56),
         "order": np.arange(64).reshape(2, 32).T.reshape(-1).astype(np.int64)}),
    Row("focus",
        "a = Slice(x, s00, far, ax, st) b = Slice(x, s10, far, ax, st) d = Slice(x, s01, far, ax, st)"
        " e = Slice(x, s11, far, ax, st) f = Concat <axis = 1> (a, b, d, e)"
        " y = Conv <pads = [1, 1, 1, 1]> (f, w)",
        "y = Conv <pads = [2, 2, 2, 2], strides = [2, 2]> (x, v)", (1, 3, 416, 416),
        {**sorted_pixels(), "s00": whole(0, 0), "s10": whole(1, 0), "s01": whole(0, 1), "s11": whole(1, 1),
         "far": whole(2**31, 2**31), "ax": whole(2, 3), "st": whole(2, 2)}),
    Row("side-by-side",
        "a = Conv(x, w) b = Conv(x, v) y = Concat <axis = 1> (a, b)", "y = Conv(x, u)", PICTURE,
        joined("u", 0, w=array(32, 64, 1, 1), v=array(32, 64, 1, 1))),
    Row("bias", "m = MatMul(x, w) y = Add(m, b)", "y = Gemm(x, w, b)", (128, 384),
        {"w": array(384, 384), "b": array(384)}),
    Row("turned-weights", "y = Gemm <transB = 1> (x, w)", "y = Gemm(x, v)", (128, 384),
        {"w": SQUARE, "v": SQUARE.T.copy()}),
    Row("three-products",
        "q = MatMul(x, w) k = MatMul(x, v) u = MatMul(x, t) a = Add(q, k) y = Add(a, u)",
        "m = MatMul(x, all) q, k, u = Split <axis = 2> (m) a = Add(q, k) y = Add(a, u)", TOKENS,
        joined("all", 1, w=array(384, 384), v=array(384, 384), t=array(384, 384))),
    Row("einsum", "y = Einsum <equation = \"bid,bjd->bij\"> (x, z)",
        "t = Transpose <perm = [0, 2, 1]> (z) y = MatMul(x, t)", TOKENS),
    Row("einsum-heads", "y = Einsum <equation = \"bqhd,bkhd->bhqk\"> (x, z)",
        "s = Transpose <perm = [0, 2, 1, 3]> (x) t = Transpose <perm = [0, 2, 3, 1]> (z) y = MatMul(s, t)",
        (1, 128, 6, 64)),
    Row("keys-in-two-steps",
        "s = Transpose <perm = [0, 2, 1, 3]> (x) t = Transpose <perm = [0, 2, 3, 1]> (z) y = MatMul(s, t)",
        "s = Transpose <perm = [0, 2, 1, 3]> (x) u = Transpose <perm = [0, 2, 1, 3]> (z)"
        " t = Transpose <perm = [0, 1, 3, 2]> (u) y = MatMul(s, t)", (1, 128, 6, 64)),
    Row("einsum-projection", "y = Einsum <equation = \"bsd,dhe->bshe\"> (x, w)",
        "a = MatMul(x, v) y = Reshape(a, heads)", TOKENS,
        {"w": (heads := array(384, 6, 64)), "v": heads.reshape(384, 384), "heads": whole(1, 128, 6, 64)}),
    Row("einsum-angles", "y = Einsum <equation = \"i,j->ij\"> (x, w)",
        "a = Unsqueeze(x, one) y = MatMul(a, v)", (1024,),
        {"w": (angles := array(64)), "v": angles[None], "one": whole(1)}),
    Row("einsum-angles-as-mul", "y = Einsum <equation = \"i,j->ij\"> (x, w)",
        "a = Unsqueeze(x, one) y = Mul(a, w)", (1024,), {"w": angles, "one": whole(1)}),
    Row("einsum-scale", "y = Einsum <equation = \"bid,bd->bid\"> (x, w)",
        "y = Mul(x, v)", TOKENS, {"w": (gains := array(1, 384)), "v": gains[:, None]}),
    Row("upscale", "y = Resize <mode = \"nearest\"> (c, , scales)",
        "a = Reshape(c, six) b = Expand(a, eight) y = Reshape(b, four)", PICTURE,
        {"scales": np.asarray([1, 1, 2, 2], np.float32), "six": whole(1, 64, 56, 1, 56, 1),
         "eight": whole(1, 64, 56, 2, 56, 2), "four": whole(1, 64, 112, 112)}),
)  # fmt: skip


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--seconds", type=float, default=12.0, help="of rounds for each contest")
    parser.add_argument("--busy", action="store_true", help="on a busy machine: processor time of one thread")
    given = parser.parse_args()
    print("| form | " + " | ".join(BACKENDS) + " |\n|---|" + "---|" * len(BACKENDS), flush=True)
    for row in ROWS:
        if not given.names or row.name in given.names:
            with tempfile.TemporaryDirectory() as folder:
                judge = in_processor_time if given.busy else in_contest
                cells = [judged(row, backend, Path(folder), given.seconds, judge) for backend in BACKENDS]
            print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)


def judged(row: Row, backend: str, folder: Path, seconds: float, judge: "Judge") -> str:
    """How much faster the second form is."""
    models = [write(row, form, folder / f"{number}.onnx") for number, form in enumerate((row.one, row.other))]
    session = backend_named(backend).load(models[0], EXACT[backend])
    feeds = {info.name: array(*(int(d) for d in info.shape if isinstance(d, int))) for info in session.inputs}
    wanted = session.run(feeds)["y"]
    session.close()
    try:
        other = backend_named(backend).load(models[1], EXACT[backend])
    except Exception as error:  # noqa: BLE001 - a form that a runtime does not take is a result
        return f"not taken: {str(error)[:60]}"
    noise = float(((wanted - other.run(feeds)["y"]) ** 2).sum()) / float((wanted**2).sum())
    other.close()
    if noise > 10 ** (-EQUAL_DB / 10):
        return f"not the same: {-10 * np.log10(noise):.0f} dB"
    return judge(backend, models, feeds, folder, seconds)


def in_contest(backend: str, models: list[Path], feeds: dict[str, Array], folder: Path, seconds: float) -> str:
    """By the rules of `edgeopt bench`: elapsed time, on all cores, in fresh processes."""
    session = backend_named(backend).load(models[0], EXACT[backend])
    batches: dict[str, Any] = {name: value[None] for name, value in feeds.items()}
    np.savez(folder / "data.npz", **batches)
    save_samples(load_data(folder / "data.npz", session.inputs), folder / "samples")
    sides = [
        Side(name, Load(backend, str(model), dict(EXACT[backend]), str(folder / "samples")), model.name)
        for name, model in zip(("one", "other"), models, strict=True)
    ]
    found = contest(LocalHost(folder), sides, Rules(time_limit_s=seconds), ignore)
    (said,) = found.comparisons
    ratio = said.speedup
    session.close()
    # The contest says how many times faster the first is.
    return f"{1 / ratio.median:.2f}x [{1 / ratio.high:.2f} {1 / ratio.low:.2f}]{mark(said.verdict)}"


def in_processor_time(backend: str, models: list[Path], feeds: dict[str, Array], _: Path, seconds: float) -> str:
    """Processor time of one thread, interleaved within this process; who else is at work matters little."""
    ratios: list[float] = []
    for _leg in range(LEGS):
        sessions = [backend_named(backend).load(model, {**EXACT[backend], "threads": 1}) for model in models]
        runs = [max(1, int(SLICE_S / spent(session, feeds, 2))) for session in sessions]
        end = time.monotonic() + seconds / LEGS
        for _round in range(MAX_ROUNDS):
            if time.monotonic() > end:
                break
            one, other = (spent(session, feeds, count) for session, count in zip(sessions, runs, strict=True))
            ratios.append(one / other)
        for session in sessions:
            session.close()
    found = sign_interval(ratios, 0.95)
    verdict = "slower" if found.low > SAME else "faster" if found.high < 1 / SAME else ""
    return f"{found.median:.2f}x [{found.low:.2f} {found.high:.2f}]{mark(verdict)}"


def spent(session: Session, feeds: dict[str, Array], count: int) -> float:
    """The processor time of one run, over this number of runs."""
    begin = time.process_time()
    for _ in range(count):
        session.run(feeds)
    return (time.process_time() - begin) / count


def mark(verdict: str) -> str:
    return {"faster": ", slower", "slower": ", **faster**"}.get(verdict, "")


def write(row: Row, form: str, path: Path) -> Path:
    """A model of one form; `c`, where it reads that, comes from a convolution of the input, as in real ones."""
    weights = dict(row.weights)
    words = set(re.findall(r"\w+", re.sub(r"<.*?>", "", form)))
    before = ""
    if "c" in words:
        weights["before"] = around_diagonal(row.shape[1])
        before = "c = Conv(x, before)"
    second = f", float{list(row.shape)} z" if "z" in words else ""
    head = f'<ir_version: 10, opset_import: ["" : {row.opset}]>'
    text = f"{head} g (float{list(row.shape)} x{second}) => (float y) {{ {before} {form} }}"
    model = onnx.parser.parse_model(text)
    read = {name for node in model.graph.node for name in node.input}
    for name, value in weights.items():
        if name in read:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")  # the runtime finds its rank on loading
    onnx.save(model, path)
    return path


if __name__ == "__main__":
    main()
