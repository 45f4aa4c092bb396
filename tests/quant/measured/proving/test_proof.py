"""What is claimed holds on each level of the data: loud samples do not carry quiet ones."""

import msgspec
import numpy as np
import pytest

from edgeopt.cli.quantize import proved
from edgeopt.commands.quantize.quantize import quantize_model
from edgeopt.commands.quantize.request import Asked, request_from
from tests.conftest import seeded, write_onnx

WIDTH, ROWS, COUNT = 128, 8, 48
QUIET = 0.01


@pytest.fixture(scope="module")
def one_product(models):
    weights = {"w": seeded(WIDTH, WIDTH, seed=3)}
    nodes = [("MatMul", ["x", "w"], ["y"], {})]
    return write_onnx(models / "levels.onnx", nodes, weights, {"x": [ROWS, WIDTH]}, {"y": [ROWS, WIDTH]})


def data_of(path, levels):
    x = np.random.default_rng(11).standard_normal((COUNT, ROWS, WIDTH)) * np.resize(levels, (COUNT, 1, 1))
    np.savez(path, x=x.astype(np.float32))
    return path


def result(model, data, out, method, **more):
    return quantize_model(
        request_from(Asked(model, out, data=data, method=method, backend="onnxruntime-cpu", **more))
    )


def test_quiet_samples_below_the_floor_refuse_what_loud_ones_carry(one_product, tmp_path):
    data = data_of(tmp_path / "levels.npz", (1.0, QUIET))
    found = result(one_product, data, tmp_path / "q.onnx", "int8", floor="30dB")

    assert found.outcome == "keep float"
    assert not (tmp_path / "q.onnx").exists()
    assert all(output.snr_db > 30 for output in found.proof.outputs)
    assert found.proof.snr_db < 15
    assert (found.proof.weakest.levels, found.proof.weakest.output) == (2, "y")
    assert found.proof.weakest.share == pytest.approx(QUIET, rel=0.2)
    assert "the weakest of 2 levels" in found.summary
    assert "samples at 0.0096 of the loudest" in found.summary
    assert any("Of 2 levels of input the weakest decides" in line for line in proved(found, found.proof))
    assert b'"weakest":{"output":"y"' in msgspec.json.encode(found)


@pytest.mark.slow
def test_a_form_that_finds_its_ranges_in_each_run_holds_on_both(one_product, tmp_path):
    data = data_of(tmp_path / "levels.npz", (1.0, QUIET))
    found = result(one_product, data, tmp_path / "q.onnx", "int8-dynamic", floor="30dB")

    assert found.outcome == "written"
    assert found.proof.low_db >= 30
    assert found.proof.weakest.levels == 2


@pytest.mark.slow
def test_of_one_level_the_ratio_is_that_of_all_samples(one_product, tmp_path):
    data = data_of(tmp_path / "alike.npz", (1.0, 0.8))
    found = result(one_product, data, tmp_path / "q.onnx", "int8", floor="30dB")

    assert found.outcome == "written"
    assert found.proof.weakest is None
    assert found.proof.snr_db == min(output.snr_db for output in found.proof.outputs)
