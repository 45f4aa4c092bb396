import os
import re
import shutil
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


@pytest.fixture(scope="session")
def build_package():
    """Builds the whole package as `make deb` builds it, into a folder, with options of build.py."""
    return _build_package


def _build_package(folder, *options):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    script = Path(__file__).parents[2] / "packaging/deb/build.py"
    command = [sys.executable, str(script), str(folder), "--compression", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode and re.search("No matching distribution|Connection|Temporary failure", done.stderr):
        pytest.skip("the wheels of the dependencies cannot be had here")
    assert done.returncode == 0, done.stderr
    (package,) = folder.glob("*.deb")
    return package


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    return _build_package(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="session")
def debian_base(tmp_path_factory):
    """A Debian as debootstrap makes it, with Python: to be copied, never changed."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap")
    root = tmp_path_factory.mktemp("debian") / "base"
    command = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap failed: {done.stdout.strip().splitlines()[-1:]}")
    yield root
    shutil.rmtree(root)
