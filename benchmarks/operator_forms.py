"""Which of two ways to write the same operator a runtime runs faster: contests of small models, a row each.

python benchmarks/operator_forms.py [NAME...] [--seconds 12]

The passes of `edgeopt/graph/passes/` choose their form by this table (docs/graph.md). The two models of a row give
the same results, which is checked first. Without names all rows run, which takes a quarter of an hour.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array
from edgeopt.bench.contender import Side
from edgeopt.bench.contest import contest
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Load
from edgeopt.bench.sequential import Rules
from edgeopt.data import load_data, save_samples
from edgeopt.events import ignore

BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
EXACT: dict[str, dict[str, str]] = {"onnxruntime-cpu": {}, "openvino-cpu": {"precision": "f32"}}
RANDOM = np.random.default_rng(0)
EQUAL_DB = 100.0


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
# Each is put between two convolutions or matrix products, as it would stand in a model.
ROWS = (
    Row("global-mean", "y = ReduceMean <axes = [2, 3]> (c)", "y = GlobalAveragePool(c)", PICTURE),
    Row("divide", "y = Div(c, s)", "y = Mul(c, r)", PICTURE,
        number(s=3.0, r=1 / 3)),
    Row("square", "y = Pow(c, two)", "y = Mul(c, c)", PICTURE, number(two=2.0)),
    Row("hard-swish", "a = Add(c, three) b = Clip(a, zero, six) d = Mul(c, b) y = Div(d, six)", "y = HardSwish(c)",
        PICTURE, number(three=3, zero=0, six=6)),
    Row("swish", "s = Sigmoid(c) y = Mul(c, s)", "y = Swish(c)", PICTURE, opset=24),
    Row("mish", "s = Softplus(c) t = Tanh(s) y = Mul(c, t)", "y = Mish(c)", PICTURE, opset=18),
    Row("transposed-convolution", "y = ConvTranspose <strides = [2, 2]> (c, w)",
        "d = Conv(c, v) y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (d)", PICTURE,
        {"w": array(64, 32, 2, 2)}),
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
        {"w": array(16, 12, 3, 3), "s00": whole(0, 0), "s10": whole(1, 0), "s01": whole(0, 1), "s11": whole(1, 1),
         "far": whole(2**31, 2**31), "ax": whole(2, 3), "st": whole(2, 2)}),
    Row("side-by-side",
        "a = Conv(x, w) b = Conv(x, v) y = Concat <axis = 1> (a, b)", "y = Conv(x, u)", PICTURE,
        {"w": array(32, 64, 1, 1), "v": array(32, 64, 1, 1)}),
    Row("bias", "m = MatMul(x, w) y = Add(m, b)", "y = Gemm(x, w, b)", (128, 384),
        {"w": array(384, 384), "b": array(384)}),
    Row("three-products",
        "q = MatMul(x, w) k = MatMul(x, v) u = MatMul(x, t) a = Add(q, k) y = Add(a, u)",
        "m = MatMul(x, wvt) q, k, u = Split <axis = 2> (m) a = Add(q, k) y = Add(a, u)", TOKENS,
        {"w": array(384, 384), "v": array(384, 384), "t": array(384, 384)}),
    Row("einsum", "y = Einsum <equation = \"bid,bjd->bij\"> (x, z)",
        "t = Transpose <perm = [0, 2, 1]> (z) y = MatMul(x, t)", TOKENS),
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
    given = parser.parse_args()
    print("| form | " + " | ".join(BACKENDS) + " |\n|---|" + "---|" * len(BACKENDS), flush=True)
    for row in ROWS:
        if not given.names or row.name in given.names:
            with tempfile.TemporaryDirectory() as folder:
                cells = [judged(row, backend, Path(folder), given.seconds) for backend in BACKENDS]
            print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)


def judged(row: Row, backend: str, folder: Path, seconds: float) -> str:
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
    # The contest says how many times faster the first is.
    return f"{1 / ratio.median:.2f}x [{1 / ratio.high:.2f} {1 / ratio.low:.2f}]{mark(said.verdict)}"


def mark(verdict: str) -> str:
    return {"faster": ", slower", "slower": ", **faster**"}.get(verdict, "")


def write(row: Row, form: str, path: Path) -> Path:
    """A model of one form; `c`, where it reads that, comes from a convolution of the input, as in real ones."""
    weights = dict(row.weights)
    if row.name == "transposed-convolution":
        weights["v"] = row.weights["w"].transpose(1, 2, 3, 0).reshape(128, 64, 1, 1).copy()
    if row.name == "focus":
        wide = np.zeros((16, 3, 6, 6), np.float32)
        for group, (i, j) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
            wide[:, :, i::2, j::2] = row.weights["w"][:, group * 3 : group * 3 + 3]
        weights["v"] = wide
    if row.name == "side-by-side":
        weights["u"] = np.concatenate([row.weights["w"], row.weights["v"]])
    if row.name == "three-products":
        weights["wvt"] = np.concatenate([row.weights[name] for name in "wvt"], axis=1)
    before = ""
    if "c" in {name for word in form.replace(",", " ").replace("(", " ").split() for name in [word.strip(")")]}:
        weights["before"] = around_diagonal(row.shape[1])
        before = "c = Conv(x, before)"
    second = (
        f", float{list(row.shape)} z"
        if "z" in form.replace(",", " ").replace("(", " ").replace(")", " ").split()
        else ""
    )
    rank = ",".join("abcd"[: 4 if len(row.shape) == 4 else len(row.shape)])
    head = f'<ir_version: 10, opset_import: ["" : {row.opset}]>'
    text = f"{head} g (float{list(row.shape)} x{second}) => (float[{rank}] y) {{ {before} {form} }}"
    model = onnx.parser.parse_model(text)
    read = {name for node in model.graph.node for name in node.input}
    for name, value in weights.items():
        if name in read:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    onnx.save(model, path)
    return path


if __name__ == "__main__":
    main()
