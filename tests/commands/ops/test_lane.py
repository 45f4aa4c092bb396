import pytest

from edgeopt.commands.ops import run as ops_run
from edgeopt.commands.ops.messages import Opened, Refused, Timed
from edgeopt.commands.ops.run import Lane
from edgeopt.measure.host import LocalHost
from edgeopt.measure.serve import Failed

CHILD = """
import os, signal, threading
import msgspec
from edgeopt.measure.serve import serve
from edgeopt.commands.ops.messages import Opened, Open, Refused, Timed, decode_request

def answer(line):
    request = decode_request.decode(line)
    if not isinstance(request, Open):
        return msgspec.json.encode(Timed(float(os.getpid())))
    name = request.model_path
    if "crashes" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hangs" in name:
        threading.Event().wait()
    if "babbles" in name:
        return b"hello"
    return msgspec.json.encode(Refused("no") if "refused" in name else Opened(1.0))

serve(answer)
"""


@pytest.fixture
def few_starts(monkeypatch):
    monkeypatch.setattr(ops_run, "_MOST_STARTS", 2)


@pytest.fixture
def lane(tmp_path, monkeypatch):
    (tmp_path / "planted_ops_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ops_run, "CHILD_MODULE", "planted_ops_child")
    made = Lane("x", LocalHost(), tmp_path)
    yield made
    made.close()


def opened(lane, name, tmp_path, within_s=60):
    lane.open(tmp_path / name, tmp_path / "feeds", {})
    return lane.answer(within_s)


def test_what_is_open_can_be_timed(lane, tmp_path):
    assert opened(lane, "good", tmp_path) == Opened(1.0)
    first, second = lane.time(1.0), lane.time(1.0)
    assert isinstance(first, Timed)
    assert first == second  # the same process


def test_what_the_backend_refuses_is_no_failure(lane, tmp_path):
    assert opened(lane, "refused", tmp_path) == Refused("no")


@pytest.mark.parametrize(
    ("name", "said"), [("crashes", "crashed: SIGSEGV"), ("hangs", "hung"), ("babbles", "invalid answer")]
)
def test_the_next_case_gets_a_new_process(lane, tmp_path, name, said):
    opened(lane, "good", tmp_path)
    before = lane.time(1.0)
    answer = opened(lane, name, tmp_path, within_s=0.5 if name == "hangs" else 20)
    assert isinstance(answer, Failed)
    assert said in answer.message
    assert opened(lane, "good", tmp_path) == Opened(1.0)
    assert lane.time(1.0) != before


@pytest.mark.usefixtures("few_starts")
def test_a_process_that_ends_again_and_again_is_given_up(lane, tmp_path):
    for _ in range(2):
        assert "SIGSEGV" in opened(lane, "crashes", tmp_path).message
    assert opened(lane, "good", tmp_path) == Failed(
        "ended too often; it was not started again", ending="too-often"
    )
