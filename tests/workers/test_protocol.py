import os
import signal
import subprocess
import sys

import psutil
import pytest

LENGTH = 1 << 20

CHILD = f"""
from edgeopt.workers.protocol import serve

serve(lambda _: b"x" * {LENGTH} + b"end")
"""


@pytest.fixture
def child(tmp_path, monkeypatch, start):
    (tmp_path / "planted_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    return start("planted_child")


def test_a_long_answer_is_whole_after_a_stop_in_its_middle(child):
    child.send(b"go")
    assert child.ready(20)  # it is in the middle: nobody takes what is longer than a pipe
    process = psutil.Process(child.pid)
    os.kill(child.pid, signal.SIGSTOP)
    while process.status() != psutil.STATUS_STOPPED:
        os.sched_yield()
    os.kill(child.pid, signal.SIGCONT)
    assert len(child.receive(20)) == LENGTH + 3
    child.send(b"go")
    assert child.receive(20).endswith(b"xend")


PROGRAM = """
import sys
from pathlib import Path
import numpy
from edgeopt.backends import backend_named
from edgeopt.workers.protocol import leave_out_the_converter
from edgeopt.data.demo import MODEL
leave_out_the_converter()
session = backend_named("openvino-cpu").load(MODEL, {})
print([array.shape for array in session.run({"image": numpy.zeros((2, 1, 32, 32), numpy.float32)}).values()])
print("urllib.request" in sys.modules, sys.modules.get("openvino.tools.ovc"))
"""


def test_openvino_runs_without_its_converter():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[(2, 10)]", "False None"], done.stderr
