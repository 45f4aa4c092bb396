import numpy as np
import onnx

PRELU = """
net (float["batch", 8, 4, 4] x) => (float["batch", 8, 4, 4] y) {
  c = Conv(x, w)
  positive = Relu(c)
  opposite = Neg(c)
  negative = Relu(opposite)
  scaled = Mul(slope, negative)
  y = Add(positive, scaled)
}
"""
SIMPLIFY = "edgeopt simplify model.onnx -o out.onnx --rules examples/own_rules.py"
WEIGHTS = np.random.default_rng(0).standard_normal((8, 8, 1, 1)).astype(np.float32)


def operators(path):
    return sorted(node.op_type for node in onnx.load(path).graph.node)


def test_prelu_is_fused_and_proved(reader, write_model):
    slope = -np.linspace(0.1, 0.8, 8, dtype=np.float32).reshape(8, 1, 1)
    write_model(PRELU, w=WEIGHTS, slope=slope)
    printed = reader.type("", SIMPLIFY)
    assert "own_rules:fuse-prelu" in printed
    assert "Equal in every value" in printed
    assert operators(reader.folder / "out.onnx") == ["Conv", "PRelu"]


def test_slope_that_is_computed_is_refused_with_the_reason(reader, write_model):
    text = PRELU.replace("Mul(slope, negative)", "Mul(c, negative)")
    write_model(text, w=WEIGHTS)
    reader.type("", f"{SIMPLIFY} --ledger ledger.json --no-verify")
    assert "PRelu" not in operators(reader.folder / "out.onnx")
    assert "the slope is not a constant" in (reader.folder / "ledger.json").read_text()
