import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Coverage
from edgeopt.backends.openvino.backend import device_times_ms
from edgeopt.backends.openvino.devices import AutoOptions, GpuOptions, auto_aim, gpu_aim
from edgeopt.backends.openvino.options import Aim, OpenVinoOptions, cpu_aim
from edgeopt.errors import ModelError, UsageError

pytest.importorskip("openvino")
OPENVINO = backend_named("openvino-cpu")


def test_every_node_that_stays_unconverted_is_named(onnx_file):
    nodes = [("Foo", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Bar", ["b"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", [1])], outputs=[("y", "float32", [1])])
    coverage = OPENVINO.supports(path)
    assert (coverage.supported, coverage.total) == (1, 3)
    assert sorted(coverage.unsupported) == ["Bar: Bar_2", "Foo: Foo_0"]


def test_a_converted_model_is_counted_without_its_weights(onnx_file):
    assert OPENVINO.supports(onnx_file("two")) == Coverage(3, 3, ())


def test_a_damaged_file_has_no_coverage(tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x08\x07garbage")
    with pytest.raises(ModelError, match="damaged"):
        OPENVINO.supports(path)


SAMPLE = {"x": np.ones((64, 256), np.float32)}


AIMS = {
    "cpu": cpu_aim(OpenVinoOptions()),
    "auto": auto_aim(AutoOptions()),
    "hetero": Aim("HETERO:CPU", "CPU", {"DEVICE_PROPERTIES": {"CPU": {"INFERENCE_NUM_THREADS": 1}}}),
}


@pytest.mark.parametrize("aim", AIMS.values(), ids=AIMS)
def test_all_time_is_the_devices(onnx_file, aim):
    times = device_times_ms(onnx_file("product"), aim, SAMPLE)
    assert list(times) == ["CPU"]
    assert times["CPU"] > 0


def test_a_divided_model_has_its_time_divided(onnx_file, fake_openvino, monkeypatch):
    """The fake computes in one piece, so the names lack the number of the part that HETERO puts before them."""
    fake_openvino.refused = {"Subtract"}
    fake_openvino.runs_on["HETERO:GPU,CPU"] = ["GPU", "CPU"]
    feeds = {"b": np.ones((500, 2), np.float32), "a": np.ones((500, 2), np.int64)}
    times = device_times_ms(onnx_file("two"), gpu_aim(GpuOptions(fallback="cpu")), feeds)
    assert set(times) >= {"GPU", "CPU"}


X = np.ones((1, 256), np.float32)


def load(path, folder, **options):
    return backend_named("openvino-cpu").load(path, {"cache_dir": str(folder), **options})


def kept(session):
    return session._programs[0].compiled.get_property("LOADED_FROM_CACHE")


def test_a_kept_model_is_found_again_and_gives_the_same(onnx_file, tmp_path):
    path = onnx_file("product")
    first, second = (load(path, tmp_path / "cache") for _ in range(2))
    assert (kept(first), kept(second)) == (False, True)
    assert first.run({"x": X})["y"].tobytes() == second.run({"x": X})["y"].tobytes()
    assert [i.name for i in second.inputs] == ["x"]


def test_a_file_changed_behind_its_back_is_not_mistaken_for_the_old_one(onnx_file, tmp_path):
    """OpenVINO's own way by path looks at time and size alone, which these two have in common."""

    def write(weight):
        path = onnx_file(
            nodes=[("MatMul", ["x", "w"], ["y"], {})],
            inputs=[("x", "float32", [1, 256])],
            outputs=[("y", "float32", [1, 1])],
            weights={"w": np.full((256, 1), weight, np.float32)},
        )
        os.utime(path, (1e9, 1e9))
        return path

    for weight in (1, 2):
        session = load(write(weight), tmp_path / "cache")
        assert session.run({"x": X})["y"].tolist() == [[256 * weight]]


def test_options_count_for_a_kept_model_too(onnx_file, tmp_path):
    path = onnx_file("product")
    load(path, tmp_path / "cache")
    session = load(path, tmp_path / "cache", threads=1, precision="f32")
    compiled = session._programs[0].compiled
    assert kept(session)
    assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
    assert compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "f32"


openvino = pytest.importorskip("openvino")


@pytest.fixture(scope="session")
def triple_library(tmp_path_factory):
    compiler = shutil.which("g++")
    package = Path(openvino.__file__).parent
    if compiler is None or not (package / "include").is_dir():
        pytest.skip("building an operator needs g++ and OpenVINO's headers")
    library = tmp_path_factory.mktemp("operators") / "libtriple.so"
    linked = [next((package / "libs").glob(f"lib{name}.so*")) for name in ("openvino", "openvino_onnx_frontend")]
    source = Path(__file__).with_name("triple.cpp")
    command = [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{package / 'include'}", source, *linked]
    subprocess.run([*command, "-o", library], check=True)
    return library


@pytest.fixture
def triple_model(tmp_path):
    import onnx
    from onnx import helper

    nodes = [helper.make_node("Triple", ["x"], ["t"], domain="test"), helper.make_node("Relu", ["t"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, 1, ["n"])] for name in "xy"]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("test", 1)]
    path = tmp_path / "triple.onnx"
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "test", *ports), opset_imports=domains, ir_version=9), path
    )
    return path


@pytest.mark.parametrize("name", ["openvino-cpu", "openvino-auto"])
def test_an_operator_of_the_users_own_runs(triple_library, triple_model, name):
    session = backend_named(name).load(triple_model, {}, strict=True, custom_ops=(str(triple_library),))
    assert session.run({"x": np.array([1, -2], np.float32)})["y"].tolist() == [3, 0]


def test_another_session_does_not_have_it(triple_library, triple_model):
    backend = backend_named("openvino-cpu")
    backend.load(triple_model, {}, custom_ops=(str(triple_library),)).close()
    with pytest.raises(ModelError, match="Triple") as raised:
        backend.load(triple_model, {})
    assert "--custom-ops" in raised.value.hint


def test_a_library_without_operators_is_told_apart(onnx_file):
    library = next((Path(openvino.__file__).parent / "libs").glob("libtbb.so*"))
    with pytest.raises(UsageError, match="cannot take custom operators from 'libtbb") as raised:
        backend_named("openvino-cpu").load(onnx_file("batch"), {}, custom_ops=(str(library),))
    assert "create_extensions" in raised.value.hint
