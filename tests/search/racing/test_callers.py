import pytest

from edgeopt.measure.messages import ONE, Calls
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.entrants import Room, at_first, called, next_batches, other_callers, room_for, to_try_on

FOUR = room_for(4, batches=True)
OPENVINO = Candidate("cleaned", "openvino-cpu", {"precision": "bf16", "shapes": {"x": [1, 3, 8]}})


def test_there_is_room_for_a_caller_on_each_core_and_for_batches_where_rows_stand_alone():
    assert Room((1, 2, 4), (1, 2, 4, 8, 16, 32)) == FOUR
    assert room_for(6, batches=False) == Room((1, 2, 4, 6), (1,))
    assert room_for(1, batches=False).cores == 1


@pytest.mark.parametrize(("callers", "threads"), [(4, 1), (2, 3)])
def test_callers_of_onnxruntime_work_beside_the_threads_that_are_left(callers, threads):
    found = called(Candidate("source", "onnxruntime-cpu"), Calls(callers), FOUR)
    assert found.options == {"threads": threads}
    assert called(found, ONE, FOUR) == Candidate("source", "onnxruntime-cpu")


def test_callers_of_openvino_have_a_stream_each_and_its_shapes_are_those_of_the_batch():
    found = called(OPENVINO, Calls(4, 8), FOUR)
    assert found.options == {
        "precision": "bf16", "performance_hint": "throughput", "streams": 4, "shapes": {"x": [8, 3, 8]},
    }  # fmt: skip
    assert found.name.endswith("performance_hint=throughput · streams=4 · 4 callers, batch 8")
    assert called(found, ONE, FOUR) == OPENVINO


def test_a_search_for_something_else_leaves_candidates_as_they_are():
    assert at_first(OPENVINO, None) is OPENVINO
    assert at_first(OPENVINO, FOUR).calls == Calls(4)


def test_what_is_tried_next_is_other_callers_and_the_batches_beside():
    found = called(OPENVINO, Calls(4, 8), FOUR)
    assert [each.calls for each in other_callers(found, FOUR)] == [Calls(2, 8), Calls(1, 8)]
    assert [each.calls for each in next_batches(found, FOUR)] == [Calls(4, 16), Calls(4, 4)]
    largest = called(OPENVINO, Calls(4, 32), FOUR)
    assert [each.calls for each in next_batches(largest, FOUR)] == [Calls(4, 16)]


@pytest.mark.parametrize(("run_ms", "batch"), [(0.1, 8), (20.0, 4), (80.0, 2), (800.0, 2)])
def test_the_baseline_is_tried_alone_and_in_company(run_ms, batch):
    assert to_try_on(FOUR, run_ms) == [Calls(1, 1), Calls(1, batch), Calls(4, 1), Calls(4, batch)]
    assert to_try_on(Room((1,)), run_ms) == [ONE]
