import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime.times import _by_provider

pytest.importorskip("onnxruntime")


def test_the_processor_takes_all_of_the_time(onnx_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = onnx_file("large")
    before = set(tmp_path.iterdir())
    times = backend_named("onnxruntime-cpu").times(path, {"threads": 1}, {"x": np.ones((1, 200_000), np.float32)})
    assert set(times) == {"CPUExecutionProvider"}
    assert 0.001 < times["CPUExecutionProvider"] < 1000
    assert set(tmp_path.iterdir()) == before


def kernel(ts, dur, provider, name="n_kernel_time"):
    return {"cat": "Node", "name": name, "ts": ts, "dur": dur, "args": {"provider": provider}}


def test_the_first_run_is_left_out_and_the_others_are_averaged():
    runs = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 9} for ts in (0, 1000, 2000)]
    events = [
        *(kernel(10, 900, "G"), kernel(1010, 100, "G"), kernel(1200, 40, "C"), kernel(2010, 300, "G")),
        *(kernel(2020, 7, "G", "n_fence_before"), {"cat": "Node", "name": "x_kernel_time", "ts": 2030, "dur": 5}),
    ]
    assert _by_provider([*runs, *events]) == {"G": pytest.approx(0.2), "C": pytest.approx(0.02)}
