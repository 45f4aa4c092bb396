"""Agents that `edgeopt-agent run` starts, as a user does."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest


@pytest.fixture
def start(tmp_path):
    """Starts `edgeopt-agent run`; a planted line of Python runs before it."""
    with ExitStack() as stack:

        def starter(*arguments, planted="", **variables):
            paths = [p for p in sys.path if p]
            if planted:
                (tmp_path / "sitecustomize.py").write_text(planted)
                paths.insert(0, str(tmp_path))
            process = subprocess.Popen(
                [sys.executable, "-m", "edgeopt_agent.main", "run", "--port", "0", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(paths),
                    "XDG_STATE_HOME": str(tmp_path / "state"),
                    **variables,
                },
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield starter
