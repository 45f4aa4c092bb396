"""What other targets' devices would do with a file, in rows that say why and what helps."""

import numpy as np
import pytest

from edgeopt.errors import EdgeoptError
from edgeopt.graph.model import save
from edgeopt.profiles import shipped_profiles
from edgeopt.quant.provider_rules import check_targets
from tests.conftest import seeded, write_onnx
from tests.quant.planted import planted, quantized, settings_of


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return planted(tmp_path_factory.mktemp("planted") / "planted.onnx")


@pytest.fixture(scope="module")
def naive(source):
    path = source.with_name("naive.onnx")
    save(quantized(source, settings_of("cpu-avx512-vnni")), path)
    return path


def test_a_file_for_vnni_breaks_where_there_is_none(naive):
    rows = check_targets(naive, ("cpu-avx2", "cpu-avx512", "cpu-avx512-vnni", "arm-dotprod"))
    assert [(row.target, row.verdict) for row in rows] == [
        ("cpu-avx2", "saturates"),
        ("cpu-avx512", "saturates"),
        ("cpu-avx512-vnni", "fine"),
        ("arm-dotprod", "fine"),
    ]
    assert rows[0].reason.startswith("3 of 3 products may overflow")
    assert "'Conv_0'" in rows[0].reason
    assert "--profile cpu-avx2" in rows[0].remedy


def test_one_with_seven_bits_does_not(source, tmp_path):
    save(quantized(source, settings_of("cpu-avx2")), tmp_path / "careful.onnx")
    (row,) = check_targets(tmp_path / "careful.onnx", ("cpu-avx2",))
    assert row.verdict == "fine"
    assert "weights of seven bits, which cannot overflow" in row.reason


def test_what_providers_cannot_take_falls_back_with_a_remedy(naive):
    rows = {row.target: row for row in check_targets(naive, ("gpu-tensorrt", "npu-coreml", "gpu-cuda"))}
    assert rows["gpu-tensorrt"].verdict == "falls back"
    assert "only symmetric signed" in rows["gpu-tensorrt"].reason
    assert rows["npu-coreml"].verdict == "falls back"
    assert rows["gpu-cuda"].verdict == "no gain"
    assert all(row.remedy for row in rows.values())


def test_what_is_written_for_tensorrt_is_fine_there(source, tmp_path):
    save(
        quantized(source, settings_of("gpu-tensorrt"), backend="onnxruntime-tensorrt"), tmp_path / "symmetric.onnx"
    )
    (row,) = check_targets(tmp_path / "symmetric.onnx", ("gpu-tensorrt",))
    assert row.verdict == "fine"


def test_operators_of_integers_are_named(source, tmp_path):
    save(quantized(source, settings_of("cpu-avx2"), form="int8-dynamic"), tmp_path / "dynamic.onnx")
    rows = check_targets(tmp_path / "dynamic.onnx", ("npu-qnn", "gpu-cuda", "gpu-tensorrt"))
    told = {row.target: row.reason for row in rows if "Integer" in row.reason}
    assert set(told) == {"npu-qnn", "gpu-cuda", "gpu-tensorrt"}
    assert "ConvInteger" in told["npu-qnn"]


def test_sixteen_bits_gain_nothing_on_a_cpu(source, tmp_path):
    save(
        quantized(source, settings_of("cpu-avx2"), form="a16w8", backend="onnxruntime-cpu"), tmp_path / "wide.onnx"
    )
    rows = check_targets(tmp_path / "wide.onnx", ("cpu-avx512-vnni",))
    assert [row.verdict for row in rows] == ["no gain"]


def test_open_shapes_are_named_with_what_fixes_them(tmp_path):
    nodes, weights = [("MatMul", ["x", "w"], ["y"], {})], {"w": seeded(32, 8)}
    path = write_onnx(tmp_path / "open.onnx", nodes, weights, {"x": ["batch", 32]}, {"y": ["batch", 8]})
    rows = check_targets(path, ("npu-qnn", "npu-openvino"))
    assert [row.verdict for row in rows] == ["falls back", "fails"]
    assert "--shape x=Nx32" in rows[0].remedy


def test_a_float_file_is_fine_anywhere(source):
    names = tuple(profile.name for profile in shipped_profiles())
    rows = check_targets(source, names)
    assert {row.target for row in rows} == set(names)
    assert {row.verdict for row in rows} == {"fine"}
    assert rows[0].reason == "Nothing in it is quantized."


def test_an_unknown_target_is_told_with_one_that_there_is(naive):
    with pytest.raises(EdgeoptError, match="cpu-avx3") as told:
        check_targets(naive, ("cpu-avx3",))
    assert "'cpu-avx" in told.value.hint


@pytest.mark.parametrize(("largest", "verdict"), [(64, "fine"), (65, "saturates")])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_weights_beyond_seven_bits_are_reported(tmp_path, largest, verdict, kind):
    middle = 128 if kind == "uint8" else 0
    weights = np.full((32, 8), middle - 1, kind)
    weights[3, 5] = middle + largest
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("DequantizeLinear", ["w", "s", "m"], ["wd"], {}),
        ("MatMul", ["d", "wd"], ["y"], {}),
    ]
    points = {"z": np.array(0, np.uint8), "m": np.array(middle, kind)}
    constants = {"w": weights, "s": np.array(0.1, np.float32), **points}
    path = write_onnx(tmp_path / "m.onnx", nodes, constants, {"x": [1, 32]}, {"y": [1, 8]})
    (row,) = check_targets(path, ("cpu-avx2",))
    assert row.verdict == verdict


def test_weights_that_cannot_be_read_may_overflow(tmp_path):
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("QuantizeLinear", ["w", "s", "m"], ["wq"], {}),
        ("DequantizeLinear", ["wq", "s", "m"], ["wd"], {}),
        ("MatMul", ["d", "wd"], ["y"], {}),
    ]
    constants = {"s": np.array(0.1, np.float32), "z": np.array(0, np.uint8), "m": np.array(0, np.int8)}
    path = write_onnx(tmp_path / "m.onnx", nodes, constants, {"x": [1, 32], "w": [32, 8]}, {"y": [1, 8]})
    (row, *_) = check_targets(path, ("cpu-avx2",))
    assert row.verdict == "saturates"
