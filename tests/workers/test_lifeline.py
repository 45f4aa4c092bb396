import os
import signal
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")

# A child that starts one of its own, says both numbers, and then waits in native code: with the interpreter's
# lock (as a runtime may that never lets it go) or without.
CHILD = r"""
import ctypes, os, subprocess, sys
from edgeopt.workers.protocol import serve

wait = {"locked": ctypes.PyDLL, "unlocked": ctypes.CDLL}

def answer(line):
    if line == b"who\n":
        kid = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return b"%d %d" % (os.getpid(), kid.pid)
    return b"%d" % wait[line.decode().strip()](None).sleep(600)

serve(answer)
"""

PARENT = """
import sys
from edgeopt.workers import host

host.WORKER_MODULE = "planted_child"
child = host.LocalHost().start()
child.send(b"who")
answer = child.receive(20).decode()
for line in sys.argv[1:]:
    child.send(line.encode())
print(answer, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family(tmp_path, monkeypatch, middle_process):
    """A parent, its child and its grandchild: the parent as a process, the others as their numbers."""
    (tmp_path / "planted_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))

    def start(*lines):
        answer, parent = middle_process(PARENT, *lines)
        child, grandchild = map(int, answer.split())
        return parent, child, grandchild

    return start


@pytest.mark.parametrize("doing", [(), ("unlocked",), ("locked",)], ids=["idle", "in a run", "in a locked run"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_child_ends_with_its_parent(family, ends, doing, how):
    parent, child, grandchild = family(*doing)
    parent.send_signal(how)
    assert parent.wait(60) == -how
    assert ends(child, grandchild)


def test_a_child_ends_when_its_stdin_closes(tmp_path, monkeypatch, start, ends):
    (tmp_path / "planted_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    one = start("planted_child")
    one.send(b"who")
    child, grandchild = map(int, one.receive(20).split())
    one.send(b"unlocked")
    one._process.stdin.close()
    assert ends(child, grandchild)
    assert os.waitstatus_to_exitcode(os.waitpid(child, os.WNOHANG)[1]) in {-signal.SIGKILL, 0}
