"""What the runtimes would leave behind and send: seen from outside, in processes that know nothing of this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITH_EDGEOPT = """
import sys
from pathlib import Path
from edgeopt.backends import backend_named
session = backend_named(sys.argv[1]).load(Path(sys.argv[2]), {})
session.close()
"""
# What has these suppresses reports by itself, and then nothing here would be proved.
SUPPRESSED = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_RUNNING_UNIT_TESTS", "ORT_DISABLE_TELEMETRY")


@pytest.fixture
def home(tmp_path):
    """A user who has never used a runtime."""
    made = tmp_path / "home"
    made.mkdir()
    return made


def environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in SUPPRESSED}
    return own | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


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


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_a_runtime_leaves_no_report_behind(home, backend):
    run(home, WITH_EDGEOPT, backend, str(ROOT / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"))
    left = {path.name for path in home.rglob("*") if path.is_file()}
    assert not left & {"onnxruntime.db", "deviceid", "openvino_ga_cid", "stats"}, left


def test_what_it_is_kept_from_is_real(home):
    """Else the test above would hold of anything."""
    plain = "import onnxruntime as o, sys; o.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"
    run(home, plain, str(ROOT / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"))
    version = tuple(
        int(part) for part in run(home, "import onnxruntime as o; print(o.__version__)").split(".")[:2]
    )
    reports = any(path.name == "deviceid" for path in home.rglob("*"))
    if not reports:
        pytest.skip(f"onnxruntime {version} reports nothing on this system")


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
    runner = ROOT / "edgeopt" / "exporting" / "files" / "runner.py"
    assert run(home, code, str(runner)) == "1 None"
