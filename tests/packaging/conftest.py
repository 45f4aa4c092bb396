import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "edgeopt" / "data" / "demo" / "digits_cnn"
PROFILE = """
name = "short"
title = "A search that is over at once"
extends = "generic-cpu"
[precision]
ladder = ["source", "int8"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 3
time_limit_s = 2
"""


@pytest.fixture(scope="session")
def digits_bundle(tmp_path_factory):
    """The built-in sample as `edgeopt optimize` makes a bundle of it, for ONNX Runtime."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "short.toml").write_text(PROFILE)
    command = ["optimize", f"{SAMPLE}.onnx", "--data", f"{SAMPLE}.npz", "--profile", str(folder / "short.toml")]
    bundle = folder / "digits_cnn.edgeopt"
    subprocess.run(
        [sys.executable, "-m", "edgeopt", *command, "-o", str(bundle)],
        check=True,
        capture_output=True,
        timeout=150,
    )
    return bundle
