import numpy as np
import pytest

from edgeopt.errors import BundleError, DataError, EdgeoptError, ModelError
from edgeopt.events import Metric, ignore
from edgeopt.measuring.sides import bench

pytestmark = pytest.mark.alone


def test_a_bundle_against_its_model(conv_bundle, conv_model):
    said = []
    found = bench(conv_bundle, conv_model, None, 6, said.append)
    assert [side.subject for side in found.sides] == ["conv.edgeopt", "conv.onnx"]
    assert all(0 < side.p50_ms <= side.p90_ms <= side.p99_ms for side in found.sides)
    assert found.speedup.rounds == 6
    assert found.verdict
    assert {event.subject for event in said if isinstance(event, Metric)} == {"conv.edgeopt", "conv.onnx"}


def test_a_model_alone_on_generated_inputs(conv_model):
    found = bench(conv_model, None, None, 2, ignore)
    assert len(found.sides) == 1
    assert found.speedup is None
    assert found.sides[0].runs > 10


def test_a_slower_model_is_seen_as_slower(null_model, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((4, 8), np.float32))
    fast, slow = null_model("fast", latency_ms=2), null_model("slow", latency_ms=6)
    found = bench(slow, fast, tmp_path / "d.npz", 6, ignore)
    assert found.verdict == "slower"
    assert 0.2 < found.speedup.median < 0.5


@pytest.mark.parametrize(
    ("kind", "error"),
    [("missing", ModelError), ("damaged", BundleError), ("wrong data", DataError), ("crashing", EdgeoptError)],
)
def test_what_cannot_be_measured(kind, error, bundle, conv_model, null_model, tmp_path):
    data, subject = None, tmp_path / "nowhere.onnx"
    if kind == "damaged":
        (bundle / "ledger.json").write_text("")
        subject = bundle
    elif kind == "wrong data":
        subject, data = conv_model, tmp_path / "d.npz"
        np.savez(data, z=np.ones(3))
    elif kind == "crashing":
        subject, data = null_model("crashing", crash="run"), tmp_path / "d.npz"
        np.savez(data, x=np.ones((4, 8), np.float32))
    with pytest.raises(error) as raised:
        bench(subject, None, data, 1, ignore)
    assert raised.value.hint
    if kind == "crashing":
        assert "SIGSEGV" in raised.value.message
