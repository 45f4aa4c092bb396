import re
import shutil
import subprocess

import pytest

from edgeopt.commands.export.cpp import onnxruntime_header
from edgeopt.commands.export.settings import OrtSettings


def test_the_header_holds_the_options(exported):
    _, out = exported("onnxruntime", "cpp")
    header = (out / "options.hpp").read_text()
    assert "options.SetIntraOpNumThreads(1);" in header
    assert 'kModel = "model/conv.onnx";' in header
    _, out = exported("openvino", "cpp")
    header = (out / "options.hpp").read_text()
    assert 'config["INFERENCE_PRECISION_HINT"] = std::string("f32");' in header
    assert 'all = {{"x", {1, 3, 16, 16}}};' in header
    listed = [line.split() for line in (out / "golden" / "samples.txt").read_text().splitlines()]
    assert listed[0] == ["0", "input", "float32", "0-input-0.bin", "4", "1", "3", "16", "16", "x"]
    assert all((out / "golden" / row[3]).stat().st_size > 0 for row in listed)


def test_what_came_late_to_the_runtime_s_headers_is_asked_for_only_where_it_is_needed():
    plain = OrtSettings(
        1, 0, "ORT_ENABLE_ALL", "ORT_SEQUENTIAL", True, True, False, {}, {}, {}, [("CPUExecutionProvider", {})]
    )
    assert "SetDeterministicCompute" not in onnxruntime_header("m", 30.0, plain)
    other = OrtSettings(
        *(1, 0, "ORT_ENABLE_ALL", "ORT_PARALLEL", False, False, True),
        {'odd "key"': "a\\b"},
        {"memory.enable_memory_arena_shrinkage": "cpu:0"},
        {"batch": 2},
        [("CUDAExecutionProvider", {"use_tf32": "0"}), ("CPUExecutionProvider", {})],
    )
    header = onnxruntime_header("m", 30.0, other)
    for wanted in (
        "SetDeterministicCompute(options, true)",
        'AddFreeDimensionOverrideByName(options, "batch", 2)',
        'options.AddConfigEntry("odd \\"key\\"", "a\\\\b");',
        'wanted = {{"use_tf32", "0"}};',
        "options.DisableCpuMemArena();",
    ):
        assert wanted in header


@pytest.mark.slow
def test_it_compiles_and_answers(exported, tmp_path):
    if not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("there is no C++ compiler with CMake here")
    from openvino.utils import get_cmake_path

    _, out = exported("openvino", "cpp")
    build = tmp_path / "build"
    flags = [f"-DOpenVINO_DIR={get_cmake_path()}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"]
    for command in (["cmake", "-S", out, "-B", build, *flags], ["cmake", "--build", build]):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run([build / "run", out], check=True, capture_output=True, text=True)
    assert float(re.search(r"golden samples: (\S+) dB", done.stdout)[1]) > 100
