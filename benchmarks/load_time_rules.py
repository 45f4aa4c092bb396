"""What ONNX Runtime's and OpenVINO's own rewrites do to constants beside those that they look for.

    .venv/bin/python benchmarks/load_time_rules.py

Each row: the largest relative difference between ONNX Runtime's answers with all optimizations and with none, that
between OpenVINO and onnx's reference, and what nodes ONNX Runtime is left with.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx.parser
from numpy.typing import NDArray

X = np.float32([0, -0.0, 1e-40, 1e-12, -1e-12, 1e-6, -1, 0.3, 1, 3, 5.5, 100, 7, -7, 0.1, -0.1])
GELU = "a = Div(x, c)  e = Erf(a)  b = Add(e, one)  p = Mul(x, b)  y = Mul(p, half)"
NORMAL = """m = ReduceMean <axes = [-1]> (x)  d = Sub(x, m)  p = Pow(d, {exponent})
    v = ReduceMean <axes = [-1]> (p)  e = Add(v, {epsilon})  s = Sqrt(e)
    n = Div(d, s)  g = Mul(n, ones)  y = Add(g, ones)"""
ARITHMETIC = {"Add": (0, 1e-10, 1e-7), "Sub": (0, 1e-10), "Mul": (1, 1 + 1e-6), "Div": (1, 1 + 1e-6)}
CASES = (
    *((f"n = Neg(x)  a = {kind}(n, c)  y = Exp(a)", c) for kind, numbers in ARITHMETIC.items() for c in numbers),
    ("n = Neg(x)  a = Add(n, c)  y = Reciprocal(a)", 0.0),
    *((GELU, c) for c in (2**0.5, 1.41421, 1.4142, 1.414, 1.41)),
    *((NORMAL.format(exponent="c", epsilon="half"), c) for c in (2, 2.00001, 2.01)),
    *((NORMAL.format(exponent="two", epsilon="c"), c) for c in (1e-5, 1e-30, 0)),
    ("a = Mul(x, c)  s = Sigmoid(a)  y = Mul(x, s)", 1.7),
    ("a = Clip(x, zero, one)  y = Clip(a, c, six)", 5),
    ("a = Relu(x)  y = Clip(a, minus, c)", -1),
    ("a = Clip(x, minus, c)  y = Relu(a)", -1),
)
NUMBERS = {"ones": [1] * 16, "zero": 0, "half": 0.5, "one": 1, "two": 2, "six": 6, "minus": -2}


def main() -> None:
    """Prints a row a case."""
    warnings.simplefilter("ignore")
    for nodes, number in CASES:
        text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[16] x) => (float[16] y) {{ {nodes} }}'
        model = onnx.parser.parse_model(text)
        for name, value in {**NUMBERS, "c": number}.items():
            array = np.asarray(value, np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        print(f"{' '.join(nodes.split())[:60]:60} c = {number:<12.8g} {_row(model)}", flush=True)


def _row(model: onnx.ModelProto) -> str:
    from onnx.reference import ReferenceEvaluator

    (plain, _), (optimized, left) = _onnxruntime(model, all_of_them=False), _onnxruntime(model, all_of_them=True)
    reference = np.asarray(ReferenceEvaluator(model).run(None, {"x": X})[0])
    return f"{_apart(plain, optimized):>12} {_apart(reference, _openvino(model)):>12}  {left}"


def _onnxruntime(model: onnx.ModelProto, all_of_them: bool) -> tuple[NDArray[np.float32], str]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if all_of_them else level.ORT_DISABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        left = " ".join(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)
    return session.run(None, {"x": X})[0], left


def _openvino(model: onnx.ModelProto) -> NDArray[np.float32]:
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    return np.asarray(compiled({"x": X})[0])


def _apart(one: NDArray[np.float32], other: NDArray[np.float32]) -> str:
    with np.errstate(all="ignore"):
        finite = np.isfinite(one) & np.isfinite(other)
        unlike = (one != other) & ~finite & ~(np.isnan(one) & np.isnan(other))
        apart = np.abs(one.astype(np.float64) - other) / np.maximum(np.abs(one), np.float32(1e-38))
    return "NaN or inf" if unlike.any() else f"{apart[finite].max(initial=0):.1e}"


if __name__ == "__main__":
    main()
