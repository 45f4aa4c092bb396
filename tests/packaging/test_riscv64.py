"""The commands that need no runtime on riscv64, emulated."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging/try_riscv64.py"


def test_the_trial_installs_each_dependency_of_edgeopt(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    specification = importlib.util.spec_from_file_location("try_riscv64", SCRIPT)
    trial = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(trial)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", each)[0] for each in project["dependencies"]]
    assert sorted(names) == sorted((*trial.NATIVE, *trial.PURE))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_probe_and_targets_run_on_riscv64():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=1700, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^probe .* riscv64$", done.stdout, flags=re.MULTILINE)
