"""The app's own process as on another system: the sample of its first page is searched, and quitting ends all."""

import subprocess
from pathlib import Path

import psutil
import pytest

from edgeopt.bundle.read import read_bundle
from tests.portable.systems import HERE, SYSTEMS, left_in

pytest.importorskip("PySide6")
OFFSCREEN = {"QT_QPA_PLATFORM": "offscreen"}


def said(process, word):
    """Returns the rest of the next line that begins with a word."""
    seen = []
    for line in process.stdout:
        begin, _, rest = line.rstrip("\n").partition(" ")
        if begin == word:
            return rest
        seen.append(line)
    raise AssertionError(f"the app ended without '{word}': {''.join(seen)}")


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_sample_is_searched_in_one_click_and_quitting_leaves_no_process(python, tmp_path, system):
    script = str(HERE / "app_journey.py")
    process = python(system, tmp_path, script, variables=OFFSCREEN, stdin=subprocess.PIPE)
    state, _, bundle = said(process, "outcome").partition(" ")
    assert state == "content"
    assert read_bundle(Path(bundle)).deployment.source.name == "digits_cnn.onnx"
    assert said(process, "verdict").startswith("Next: ")
    said(process, "searching")
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    rest, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0, rest
    assert psutil.wait_procs(family, timeout=20)[1] == []
    assert "Traceback" not in rest
    assert left_in(tmp_path, system) == []
