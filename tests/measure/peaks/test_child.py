import msgspec
import pytest

from edgeopt.measure.peaks.measure import CHILD_MODULE
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Ran, Repeat, Stream, decode_answer
from edgeopt.measure.serve import NO_MEMORY, Failed


@pytest.fixture
def ask(start):
    child = start(CHILD_MODULE)

    def once(task, slice_ms=5.0):
        child.send(msgspec.json.encode(Repeat(task, slice_ms)))
        return decode_answer(child.receive(30))

    return once


@pytest.mark.parametrize(
    "task",
    [
        Layers("onnxruntime-cpu", "int8", 2, "Conv 3x3", (2, 16, 6), 2),
        Layers("openvino-cpu", "fp32", 1, "MatMul", (4, 16), 2),
        Dispatch("onnxruntime-cpu"),
        Stream("L1", 2, "copy", 8192),
    ],
    ids=["onnxruntime", "openvino", "dispatch", "stream"],
)
def test_rates_of_each_kind_of_task(ask, task):
    answers = [ask(task) for _ in range(4)]
    assert all(isinstance(answer, Ran) for answer in answers), answers
    assert min(rate for answer in answers for rate in answer.rates) > 0
    assert any(len(answer.rates) > 1 for answer in answers)


def test_a_slice_of_no_length_is_one_run(ask):
    assert len(ask(Dispatch("onnxruntime-cpu"), 0.0).rates) == 1


def test_what_cannot_be_done_is_said_and_the_next_task_goes_on(ask):
    unknown = ask(Dispatch("no-such-backend"))
    assert isinstance(unknown, Failed)
    assert "no-such-backend" in unknown.message
    assert ask(Stream("memory", 1, "read", 1 << 60)) == Failed("There is not enough memory.", code=NO_MEMORY)
    assert isinstance(ask(Dispatch("onnxruntime-cpu")), Ran)
