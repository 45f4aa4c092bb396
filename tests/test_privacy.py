"""What the runtimes would leave behind and send: seen from outside, in processes that know nothing of this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"
WITH_EDGEOPT = """
import sys
from pathlib import Path
from edgeopt.backends import backend_named
session = backend_named(sys.argv[1]).load(Path(sys.argv[2]), {})
session.close()
"""
PLAIN = {
    "onnxruntime-cpu": "import onnxruntime as o, sys; "
    "o.InferenceSession(sys.argv[2], providers=['CPUExecutionProvider'])",
    "openvino-cpu": "import openvino",
}
REPORTS = {"onnxruntime.db", "deviceid", "openvino_ga_cid"}


@pytest.fixture
def home(tmp_path):
    """A user who has never used a runtime."""
    made = tmp_path / "home"
    made.mkdir()
    return made


def environment(home: Path) -> dict[str, str]:
    """Nothing else: what says that these are tests, or a build, keeps the runtimes from reporting by itself."""
    folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    return folders | {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}


def run(home: Path, code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def left_in(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*")} & REPORTS


@pytest.mark.parametrize("backend", PLAIN)
def test_a_runtime_leaves_no_report_behind(home, backend):
    run(home, WITH_EDGEOPT, backend, str(MODEL))
    assert left_in(home) == set()
    run(home, PLAIN[backend], backend, str(MODEL))
    assert left_in(home), "it reports nothing by itself either: what keeps it from that can go"


def test_the_word_of_the_user_counts(monkeypatch):
    from edgeopt import privacy

    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    own = object()
    monkeypatch.setitem(sys.modules, "openvino_telemetry", own)
    privacy.keep_runtimes_quiet()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"
    assert sys.modules["openvino_telemetry"] is own


def test_an_exported_script_is_quiet_too(home):
    """Its head runs before any runtime is imported."""
    code = "import runpy, os, sys; runpy.run_path(sys.argv[1]); print(os.environ['ORT_DISABLE_TELEMETRY'], "
    code += "sys.modules['openvino_telemetry'])"
    runner = ROOT / "edgeopt" / "commands" / "export" / "files" / "runner.py"
    assert run(home, code, str(runner)) == "1 None"
