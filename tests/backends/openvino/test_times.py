import numpy as np
import pytest

from edgeopt.backends.openvino.backend import device_times_ms
from edgeopt.backends.openvino.devices import AutoOptions, GpuOptions, auto_aim, gpu_aim
from edgeopt.backends.openvino.options import Aim, OpenVinoOptions, cpu_aim

pytest.importorskip("openvino")
X = {"x": np.ones((64, 256), np.float32)}


AIMS = {
    "cpu": cpu_aim(OpenVinoOptions()),
    "auto": auto_aim(AutoOptions()),
    "hetero": Aim("HETERO:CPU", "CPU", {"DEVICE_PROPERTIES": {"CPU": {"INFERENCE_NUM_THREADS": 1}}}),
}


@pytest.mark.parametrize("aim", AIMS.values(), ids=AIMS)
def test_all_time_is_the_devices(onnx_file, aim):
    times = device_times_ms(onnx_file("product"), aim, X)
    assert list(times) == ["CPU"]
    assert times["CPU"] > 0


def test_a_divided_model_has_its_time_divided(onnx_file, fake_openvino, monkeypatch):
    """The fake computes in one piece, so the names lack the number of the part that HETERO puts before them."""
    fake_openvino.refused = {"Subtract"}
    fake_openvino.runs_on["HETERO:GPU,CPU"] = ["GPU", "CPU"]
    feeds = {"b": np.ones((500, 2), np.float32), "a": np.ones((500, 2), np.int64)}
    times = device_times_ms(onnx_file("two"), gpu_aim(GpuOptions(fallback="cpu")), feeds)
    assert set(times) >= {"GPU", "CPU"}
