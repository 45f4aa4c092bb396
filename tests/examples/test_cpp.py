"""examples/cpp, compiled with OpenVINO, whose wheel has the headers."""

import re
import shutil

import numpy as np
import pytest

import edgeopt
from edgeopt.data import demo

PROFILE = """
name = "openvino"
title = "OpenVINO only"
extends = "generic-cpu"
[backends]
order = ["openvino-cpu"]
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_program_prints_the_class_that_python_finds(reader):
    if not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("there is no C++ compiler with CMake here")
    from openvino.utils import get_cmake_path

    (reader.folder / "openvino.toml").write_text(PROFILE)
    reader.search_s = 10
    reader.type("", f"edgeopt optimize '{demo.MODEL}' --data '{demo.DATA}' -o m.edgeopt --profile openvino.toml")
    reader.type("", "edgeopt export m.edgeopt --to cpp -o model-cpp")
    with np.load(demo.DATA) as data:
        image = data["image"][0]
    image.tofile(reader.folder / "image.bin")
    with edgeopt.load(reader.folder / "m.edgeopt") as session:
        best = session.run({"image": image})["logits"].argmax()
    flags = f"-DOpenVINO_DIR='{get_cmake_path()}' -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror'"
    reader.type("", f"cmake -S examples/cpp -B build -DEXPORT=$PWD/model-cpp {flags}\ncmake --build build")
    assert re.fullmatch(rf"class {best}, logits \d+\.\d+\n", reader.type("", "build/classify model-cpp image.bin"))
