"""What x86 without VNNI loses of a quantized file: against sums done one by one, and against the instruction."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.hw.probe import probe
from edgeopt.quant.pairs import can_overflow, lost_by
from edgeopt.quant.saturation import percent, simulate
from tests.conftest import narrow, seeded, write_onnx
from tests.quant.planted import planted, quantized, samples, settings_of
from tests.quant.small_models import odd_net, picture_net, token_net


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return planted(tmp_path_factory.mktemp("planted") / "planted.onnx")


@pytest.fixture(scope="module")
def floats(model):
    session = backend_named("onnxruntime-cpu").load(model, {})
    yield [session.run(samples().feeds(k)) for k in range(8)]
    session.close()


def one_by_one(rows, weight):
    """The instruction, written out."""
    total = np.zeros((len(rows), weight.shape[1]), np.int64)
    for begin in range(0, rows.shape[1], 2):
        pair = rows[:, begin : begin + 2].astype(np.int64) @ weight[begin : begin + 2].astype(np.int64)
        total += np.clip(pair, -32768, 32767)
    return total


@pytest.mark.parametrize("inputs", [1, 6, 7, 64])
def test_what_is_lost_is_what_the_instruction_cuts_off(inputs):
    random = np.random.default_rng(inputs)
    rows = random.integers(0, 256, (300, inputs), np.uint8)
    weight = random.integers(-127, 128, (inputs, 5), np.int8)
    lost = lost_by(rows, weight)
    exact = rows.astype(np.int64) @ weight.astype(np.int64)
    assert np.array_equal(exact - lost.excess, one_by_one(rows, weight))
    assert lost.sums == 300 * 5 * -(-inputs // 2)
    assert (lost.cut > 0) == (inputs > 1)


def test_seven_bits_cannot_overflow():
    assert not can_overflow(np.full((8, 2), 64, np.int8))
    assert not can_overflow(np.full((8, 2), -64, np.int8))
    assert can_overflow(np.full((8, 2), 65, np.int8))
    assert not can_overflow(np.array([[127], [-127]], np.int8))


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_the_profile_for_avx2_keeps_what_the_naive_file_loses(model, floats, backend):
    naive = simulate(quantized(model, settings_of("cpu-avx512-vnni"), backend=backend), samples())
    careful = simulate(quantized(model, settings_of("cpu-avx2"), backend=backend), samples())
    exact_db, there_db = (compare_outputs(floats, got).snr_db for got in (careful.exact, careful.outputs))
    assert there_db > 25
    assert exact_db - there_db < 1.0
    assert careful.cut == ()
    exact_db, there_db = (compare_outputs(floats, got).snr_db for got in (naive.exact, naive.outputs))
    assert exact_db > 25
    assert exact_db - there_db > 10
    assert [each.layer for each in naive.cut]
    assert naive.cut[0].sentence.endswith(f"of the pairs in '{naive.cut[0].layer}' overflow 16 bits.")


@pytest.mark.parametrize("signed", [False, True])
def test_dynamic_and_signed_activations_lose_as_well(model, signed):
    settings = settings_of("cpu-avx512-vnni")
    if signed:
        found = simulate(quantized(model, msgspec.structs.replace(settings, activation_type="int8")), samples(2))
    else:
        found = simulate(quantized(model, settings, form="int8-dynamic"), samples(2))
    assert len(found.layers) == 3
    assert found.snr_db < 30
    assert found.left_out == ()


def test_operators_of_integers_lose_what_pairs_around_floats_lose(tmp_path):
    weight = np.random.default_rng(1).integers(90, 127, (16, 6), np.int8)
    steps = {"s": np.float32(1 / 255), "z": np.uint8(3), "ws": np.float32(0.01), "wz": np.int8(0)}
    steps |= {"ys": np.float32(0.08), "yz": np.uint8(0)}
    rounded = ("QuantizeLinear", ["x", "s", "z"], ["q"], {})
    linear = [
        rounded,
        ("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "ys", "yz"], ["o"], {}),
        ("DequantizeLinear", ["o", "ys", "yz"], ["y"], {}),
    ]
    pairs = [
        rounded,
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("DequantizeLinear", ["w", "ws", "wz"], ["v"], {}),
        ("MatMul", ["d", "v"], ["m"], {}),
        ("QuantizeLinear", ["m", "ys", "yz"], ["o"], {}),
        ("DequantizeLinear", ["o", "ys", "yz"], ["y"], {}),
    ]
    data = Samples({"x": np.random.default_rng(2).random((2, 3, 16), np.float32)}, {"x": 2})
    found = []
    for name, nodes in (("linear", linear), ("pairs", pairs)):
        path = write_onnx(tmp_path / f"{name}.onnx", nodes, {"w": weight, **steps}, {"x": [3, 16]}, {"y": [3, 6]})
        found.append(simulate(load(path).ir, data))
    for one, other in zip(found[0].outputs, found[1].outputs, strict=True):
        assert np.array_equal(one["y"], other["y"])
    integers = np.clip(np.rint(data.arrays["x"][0] * 255) + 3, 0, 255).astype(np.uint8)
    there = (one_by_one(integers, weight) - 3 * weight.sum(axis=0)) * 0.01 / 255
    assert np.abs(found[0].outputs[0]["y"] - np.clip(np.rint(there / 0.08), 0, 255) * 0.08).max() < 0.081
    assert found[0].snr_db < 20


def test_groups_strides_and_dilations(tmp_path):
    """Each place of a grouped convolution's window, done by hand."""
    weight = np.random.default_rng(4).integers(60, 127, (4, 2, 3, 3), np.int8)
    steps = {"s": np.float32(1), "z": np.uint8(5), "ws": np.float32(1), "wz": np.int8(0)}
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("DequantizeLinear", ["w", "ws", "wz"], ["v"], {}),
        ("Conv", ["d", "v"], ["y"], {"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 0, 2]}),
    ]
    path = write_onnx(tmp_path / "g.onnx", nodes, {"w": weight, **steps}, {"x": [1, 4, 6, 7]}, {"y": [1, 4, 3, 5]})
    x = np.random.default_rng(5).integers(-5, 250, (1, 1, 4, 6, 7)).astype(np.float32)
    found = simulate(load(path).ir, Samples({"x": x}, {"x": 4}))
    padded = np.pad(x[0, 0] + 5, ((0, 0), (1, 0), (0, 2)), constant_values=5).astype(np.int64)
    wanted = np.zeros((4, 3, 5))
    for out, row, column in np.ndindex(4, 3, 5):
        group = out // 2 * 2
        for i, j in np.ndindex(3, 3):
            seen = padded[group : group + 2, row * 2 + i, column + 2 * j]
            pair = int((seen * weight[out, :, i, j]).sum())
            wanted[out, row, column] += np.clip(pair, -32768, 32767) - 5 * int(weight[out, :, i, j].sum())
    assert np.array_equal(found.outputs[0]["y"][0], wanted)
    assert found.cut


def test_depth_wise_convolutions_add_up_in_32_bits(tmp_path):
    nodes = [("Conv", ["x", "w"], ["y"], {"group": 4})]
    weights = {"w": np.abs(seeded(4, 1, 5, 5)) + 1}
    path = write_onnx(tmp_path / "d.onnx", nodes, weights, {"x": [1, 4, 8, 8]}, {"y": [1, 4, 4, 4]})
    found = simulate(quantized(path, settings_of("cpu-avx512-vnni")), samples())
    assert [each.cut for each in found.layers] == [0]
    assert found.snr_db == 200


_ON_AVX2 = """
import numpy as np, sys
from pathlib import Path
from edgeopt.backends import backend_named
session = backend_named("openvino-cpu").load(Path(sys.argv[1]), {"precision": "f32"})
x = np.load(sys.argv[2])
np.save(sys.argv[3], np.stack([session.run({"x": each})["y"] for each in x]))
"""


def test_the_instruction_itself_gives_what_is_simulated(model, tmp_path):
    """oneDNN inside OpenVINO, told to use AVX2 without VNNI."""
    pytest.importorskip("openvino")
    from edgeopt.hw.probe import probe

    if "avx2" not in probe().cpu.simd:
        pytest.skip("this CPU has no AVX2")
    file, data = quantized(model, settings_of("cpu-avx512-vnni"), backend="openvino-cpu"), samples(3)
    save(file, tmp_path / "naive.onnx")
    np.save(tmp_path / "x.npy", data.arrays["x"][:, None])
    command = [
        sys.executable,
        "-c",
        _ON_AVX2,
        *(str(tmp_path / name) for name in ("naive.onnx", "x.npy", "y.npy")),
    ]
    subprocess.run(command, check=True, env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"})
    there = [{"y": each} for each in np.load(tmp_path / "y.npy")]
    found = simulate(file, data)
    assert found.snr_db < 20
    assert compare_outputs(found.outputs, there).snr_db > found.snr_db + 20


def test_shares_for_people():
    assert percent(0.0) == "0.0 %"
    assert percent(0.0004) == "less than 0.1 %"
    assert percent(0.0123) == "1.2 %"
    assert percent(0.25) == "25 %"


@pytest.mark.hardware
@pytest.mark.parametrize("net", [picture_net, token_net, odd_net])
def test_this_processor_computes_what_is_simulated(net, tmp_path):
    if not narrow() or probe().host.architecture != "x86_64":
        pytest.skip("pairs of products do not overflow on this processor")
    one = net(tmp_path)
    path = one.written("int8", one.context("onnxruntime-cpu", reduce_range=False), tmp_path / "q.onnx")
    rows = {name: np.stack([feed[name] for feed in one.feeds]) for name in one.feeds[0]}
    found = simulate(load(path).ir, Samples(rows, {name: array.ndim - 1 for name, array in rows.items()}))
    got = one.answers(path)
    exact, simulated = compare_outputs(found.exact, got).snr_db, compare_outputs(found.outputs, got).snr_db
    assert exact < 40
    assert simulated > 100
