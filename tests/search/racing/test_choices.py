from pathlib import Path

import pytest

from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.space import candidates_of, choices_on, point_of, subject_of

FAKEROOTS = Path(__file__).parents[2] / "fakeroots"
ORT, OPENVINO = "onnxruntime-cpu", "openvino-cpu"
SPACE = {
    ORT: {"threads": (8, 1), "spinning": (True, False), "arena": (False,)},
    OPENVINO: {"threads": (8, 1), "precision": ("f32", "bf16")},
}


@pytest.mark.parametrize(
    ("board", "ort", "openvino"),
    [
        # Two performance cores with two threads each, and four others.
        ("intel-hybrid", {"threads": (8, 6, 2, 1), "cores": ("", "0,1,2,3")}, {"core_type": ("", "performance")}),
        ("amd-zen4", {"threads": (8, 6, 1)}, {}),
        ("raspberry-pi-5", {"threads": (8, 4, 1)}, {}),
    ],
)
def test_whole_and_fast_cores_are_tried_where_there_are_others(board, ort, openvino):
    device = probe(RecordedHost(FAKEROOTS / board))
    assert choices_on(ORT, SPACE, device) == {"spinning": (True, False), **ort}
    assert choices_on(OPENVINO, SPACE, device) == {"threads": ort["threads"], **openvino}
    # Where the profile leaves the threads alone, so does this.
    assert choices_on(ORT, {ORT: {"spinning": (True, False)}}, device) == {"spinning": (True, False)}


def test_every_combination_that_makes_sense_is_a_candidate():
    choices = {"threads": (4, 1), "spinning": (True, False), "cores": ("", "0,1")}
    start = Candidate("cleaned", ORT, {"arena": False})
    found = [candidate.options for candidate in candidates_of(start, choices)]
    assert all(options.pop("arena") is False for options in found)
    assert found == [
        {},
        {"cores": "0,1"},
        {"spinning": False},
        {"spinning": False, "cores": "0,1"},
        {"threads": 1},  # nobody waits for anybody there, and nothing is pinned
    ]


def test_what_a_container_allows_is_where_it_starts():
    choices = {"threads": (3, 1), "spinning": (True, False)}
    start = Candidate("cleaned", ORT, {"threads": 3})
    tried = Candidate("cleaned", ORT, {"threads": 1})
    assert [c.options for c in candidates_of(start, choices)] == [
        {"threads": 3},
        {"threads": 3, "spinning": False},
        {"threads": 1},
    ]
    assert point_of(start, choices).choices == {}
    assert point_of(tried, choices).choices == {"threads": 1}
    assert subject_of(start, choices) == start
    assert point_of(start, choices).subject == point_of(tried, choices).subject
    assert point_of(Candidate("source", ORT), choices).subject != point_of(start, choices).subject
