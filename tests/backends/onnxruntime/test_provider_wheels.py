"""Backends whose provider is in a wheel of its own; the real runtime says what is wrong with a library."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from edgeopt.backends.onnxruntime import opening, provider
from edgeopt.backends.onnxruntime.opening import open_with, session_options_for
from edgeopt.backends.onnxruntime.provider import available
from edgeopt.backends.onnxruntime.providers import OPENVINO_PROVIDER, QNN_PROVIDER
from edgeopt.backends.options import read_options
from edgeopt.errors import MissingError, UsageError
from edgeopt.hw import provider_wheels

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def wheel(monkeypatch):
    """`wheel(QNN_PROVIDER, path)` pretends that the provider's wheel is installed beside plain onnxruntime."""

    def install(of, library):
        module = ModuleType(of.wheel.module)
        module.get_library_path = lambda: str(library)
        monkeypatch.setitem(sys.modules, of.wheel.module, module)
        real = provider.find_spec
        monkeypatch.setattr(provider, "find_spec", lambda name: name if name == of.wheel.module else real(name))
        own = SimpleNamespace(name=of.wheel.distribution, version="9.1")
        plain = SimpleNamespace(name="onnxruntime", version="1.31.1")
        monkeypatch.setattr(provider, "_distribution", {own.name: own, plain.name: plain}.get)
        monkeypatch.setattr(provider_wheels, "_registered", set())

    return install


@pytest.fixture
def selected(wheel, monkeypatch, onnx_file):
    """`selected(QNN_PROVIDER, {"NPU": ...}, option=...)` is the device and settings that the runtime is given."""

    def select(of, kinds, **chosen):
        wheel(of, "library")
        monkeypatch.setattr(opening, "register", lambda _wheel: None)
        monkeypatch.setattr(opening, "devices", lambda _wheel: {kind: kind for kind in kinds})
        given = []
        made = SimpleNamespace(add_provider_for_devices=lambda listed, settings: given.append((listed, settings)))
        started = SimpleNamespace(get_providers=lambda: [of.key])
        monkeypatch.setattr(opening, "open_session", lambda *_args, **_more: started)
        open_with(of, onnx_file("batch"), read_options(of.options, chosen, of.name), made)
        return given[0]

    return select


def refusal(of, onnx_file):
    options = read_options(of.options, {}, of.name)
    with pytest.raises(MissingError) as raised:
        open_with(of, onnx_file("batch"), options, session_options_for(options, of.name))
    return raised.value


@pytest.mark.parametrize("of", [QNN_PROVIDER, OPENVINO_PROVIDER], ids=lambda of: of.name)
def test_an_installed_wheel_makes_the_backend_available(wheel, of):
    wheel(of, "library")
    assert available(of).version == f"9.1 on ONNX Runtime {onnxruntime.__version__}"


def test_a_runtime_with_the_provider_built_in_is_preferred(wheel, monkeypatch):
    wheel(OPENVINO_PROVIDER, "library")
    assert provider.installed_wheel(OPENVINO_PROVIDER) is OPENVINO_PROVIDER.wheel
    monkeypatch.setattr(provider, "_distribution", lambda name: SimpleNamespace(name=name, version="1.24.1"))
    assert provider.installed_wheel(OPENVINO_PROVIDER) is None


@pytest.mark.parametrize(
    ("of", "needed"), [(QNN_PROVIDER, "1.24.2"), (OPENVINO_PROVIDER, "1.23.0")], ids=lambda of: str(of)[:8]
)
@pytest.mark.parametrize("broken", [False, True])
def test_a_missing_or_broken_library_is_an_error_with_the_version_needed(
    wheel, onnx_file, tmp_path, of, needed, broken
):
    library = tmp_path / "libprovider.so"
    if broken:
        library.write_bytes(b"no library")
    wheel(of, library)
    error = refusal(of, onnx_file)
    assert f"Runtime {onnxruntime.__version__} cannot load the library of {of.wheel.distribution}" in str(error)
    assert "libprovider.so" in str(error)
    assert f"It needs ONNX Runtime {needed} or later" in error.hint
    assert f"pip install --force-reinstall {of.wheel.distribution}" in error.hint


def test_a_wheel_without_its_library_is_the_same_error(wheel, onnx_file):
    """OpenVINO's function raises a FileNotFoundError."""
    wheel(OPENVINO_PROVIDER, "library")

    def get_library_path():
        raise FileNotFoundError("OpenVINO EP plugin library not found at /lib/libx.so.")

    sys.modules[OPENVINO_PROVIDER.wheel.module].get_library_path = get_library_path
    error = refusal(OPENVINO_PROVIDER, onnx_file)
    assert "not found at /lib/libx.so" in str(error)


@pytest.mark.parametrize(
    ("of", "kinds", "chosen", "device"),
    [
        (QNN_PROVIDER, ["CPU", "GPU", "NPU"], {}, "NPU"),
        (QNN_PROVIDER, ["CPU", "GPU", "NPU"], {"backend_type": "gpu"}, "GPU"),
        (QNN_PROVIDER, ["CPU", "GPU", "NPU"], {"backend_type": "cpu"}, "CPU"),
        (QNN_PROVIDER, ["CPU"], {}, "CPU"),
        (OPENVINO_PROVIDER, ["NPU", "CPU"], {}, "CPU"),
        (OPENVINO_PROVIDER, ["CPU", "GPU", "NPU"], {"device_type": "NPU"}, "NPU"),
        (OPENVINO_PROVIDER, ["CPU", "GPU.0", "GPU.1"], {"device_type": "GPU"}, "GPU.0"),
        (OPENVINO_PROVIDER, ["CPU", "GPU.0", "GPU.1"], {"device_type": "GPU.1"}, "GPU.1"),
        (OPENVINO_PROVIDER, ["CPU", "GPU"], {"device_type": "GPU.0"}, "GPU"),
    ],
)
def test_options_select_the_device(selected, of, kinds, chosen, device):
    assert selected(of, kinds, **chosen)[0] == [device]


def test_options_are_passed_as_to_the_built_in_provider(selected):
    _, settings = selected(QNN_PROVIDER, ["NPU"], htp_performance_mode="burst")
    assert settings == {"backend_type": "htp", "htp_performance_mode": "burst"}
    _, settings = selected(OPENVINO_PROVIDER, ["NPU"], device_type="NPU", precision="f16")
    # `device_type` only makes the library warn: the device is selected instead.
    assert settings == {
        "load_config": '{"NPU": {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f16"}}'
    }


def test_a_device_that_the_library_does_not_see(selected):
    with pytest.raises(MissingError, match="onnxruntime-ep-openvino sees no NPU here, only: CPU"):
        selected(OPENVINO_PROVIDER, ["CPU"], device_type="NPU")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"device_type": "AUTO:GPU,CPU"}, "runs on one device, not on AUTO:GPU,CPU"),
        ({"device_type": "AUTO"}, "runs on one device, not on AUTO"),
        ({"layout": "x[NC]"}, "no option 'layout'"),
        ({"disable_dynamic_shapes": True}, "no option 'disable_dynamic_shapes'"),
    ],
)
def test_what_openvinos_library_would_ignore_is_refused(selected, chosen, message):
    with pytest.raises(UsageError, match=message):
        selected(OPENVINO_PROVIDER, ["CPU", "GPU"], **chosen)
