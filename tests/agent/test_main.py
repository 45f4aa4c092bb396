import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from edgeopt.version import __version__
from edgeopt_agent.main import MODULES

ROOT = Path(__file__).parents[2]


def run_agent(*arguments, extra_path=None):
    """Runs the agent in a Python that sees no installed package but those in `extra_path`."""
    paths = [str(path) for path in (ROOT, ROOT / "agent", extra_path) if path]
    program = (
        f"import sys; sys.path[:0] = {paths!r}; from edgeopt_agent.main import main; raise SystemExit(main())"
    )
    command = [sys.executable, "-I", "-S", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def put_empty_packages(folder, modules):
    for module in modules:
        (folder / module).mkdir()
        (folder / module / "__init__.py").touch()


def test_says_which_extra_is_missing_on_a_bare_python():
    done = run_agent()
    assert done.returncode == 5
    assert "needs the 'agent' extra" in done.stderr
    assert "pip install 'edgeopt[agent]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("absent", MODULES)
def test_one_missing_part_of_the_extra_is_enough(tmp_path, absent):
    put_empty_packages(tmp_path, [module for module in MODULES if module != absent])
    assert "needs the 'agent' extra" in run_agent(extra_path=tmp_path).stderr


def test_says_that_it_cannot_serve_when_the_extra_is_there(tmp_path):
    put_empty_packages(tmp_path, MODULES)
    done = run_agent(extra_path=tmp_path)
    assert done.returncode == 5
    assert "cannot serve bundles yet" in done.stderr
    assert "extra" not in done.stderr


def test_version_and_help_work_on_a_bare_python():
    version = run_agent("--version")
    assert (version.returncode, version.stdout) == (0, f"edgeopt-agent {__version__}\n")
    described = run_agent("--help")
    assert described.returncode == 0
    assert "cannot serve bundles yet" in " ".join(described.stdout.split())


def test_wrong_usage_leaves_with_2():
    assert run_agent("--no-such-option").returncode == 2


def test_every_distribution_of_the_extra_is_looked_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules_of = {"prometheus-client": "prometheus_client", "grpcio": "grpc", "edgeopt[sign]": "cryptography"}
    names = [requirement.split(">=")[0] for requirement in extras["agent"]]
    assert {modules_of.get(name, name) for name in names} == set(MODULES)
