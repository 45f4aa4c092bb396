import os

import numpy as np
import pytest

from edgeopt.backends import backend_named

pytest.importorskip("openvino")

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
