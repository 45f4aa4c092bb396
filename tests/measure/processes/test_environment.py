import os
import subprocess
import sys

import pytest

from edgeopt.measure.environment import BLAS_THREADS, child_environment, outer_environment

SHOW = f"""
import os
from edgeopt.measure.environment import outer_environment
print(os.environ.get({BLAS_THREADS!r}), outer_environment().get({BLAS_THREADS!r}),
      outer_environment().get("PYTHONPATH"), [n for n in outer_environment() if n.startswith("EDGEOPT_OUTER")])
"""


@pytest.fixture
def environment(monkeypatch):
    """This process's, as a user would have it who set neither."""
    monkeypatch.delenv(BLAS_THREADS, raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return monkeypatch


def seen_by_a_child(**how):
    command = [sys.executable, "-P", "-c", SHOW]
    done = subprocess.run(command, env=child_environment(None, **how), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_child_imports_edgeopt_and_gives_the_users_environment_back(environment):
    assert seen_by_a_child() == "None None None []"
    environment.setenv("PYTHONPATH", "/users/own")
    assert seen_by_a_child() == "None None /users/own []"


def test_who_calculates_nothing_starts_no_threads_for_it(environment):
    assert seen_by_a_child(calculates=False) == "1 None None []"


def test_what_the_user_set_holds(environment):
    environment.setenv(BLAS_THREADS, "3")
    assert seen_by_a_child(calculates=False) == "3 3 None []"


def test_a_child_of_a_child_remembers_the_first(environment, tmp_path):
    environment.setenv("PYTHONPATH", "/users/own")
    first = child_environment(tmp_path, calculates=False)
    assert first["TMPDIR"] == str(tmp_path)
    for name, value in first.items():
        environment.setenv(name, value)
    assert child_environment(None)["EDGEOPT_OUTER_PYTHONPATH"] == "/users/own"
    assert outer_environment()["PYTHONPATH"] == "/users/own"
    assert BLAS_THREADS not in outer_environment()


def test_not_from_the_working_directory(environment, tmp_path):
    environment.chdir(tmp_path)
    environment.syspath_prepend(str(tmp_path))
    assert str(tmp_path) not in child_environment(None)["PYTHONPATH"].split(os.pathsep)
