"""Which ends of a worker count against its release, by the requests that it ran."""

import pytest

from edgeopt_agent.workers import ending_requests
from edgeopt_agent.workers.ending_requests import EndingRequests

POISON, OTHER, SAME_SIZE = [b"poi", b"son"], [b"longer body"], [b"plain."]


@pytest.fixture
def requests():
    return EndingRequests()


def test_one_request_counts_once_however_often_it_ends_the_worker(requests):
    assert [requests.note("new", [POISON]) for _ in range(3)] == [True, False, False]
    assert requests.times("new", [b"poison"]) == 3  # however it came in pieces
    assert requests.times("new", SAME_SIZE) == requests.times("old", POISON) == 0
    assert requests.note("new", [OTHER])
    assert requests.note("old", [POISON])


def test_a_request_that_is_answered_afterwards_was_not_the_cause_and_counts_anew(requests):
    requests.note("new", [POISON])
    requests.answered("new", SAME_SIZE)
    assert requests.times("new", POISON) == 1
    requests.answered("new", POISON)
    assert requests.times("new", POISON) == 0
    assert requests.note("new", [POISON])


def test_the_requests_of_a_batch_run_alone_until_the_cause_is_known(requests):
    assert requests.note("new", [OTHER, POISON])
    assert requests.suspected("new", OTHER)
    assert requests.times("new", POISON) == 0
    requests.answered("new", OTHER)
    assert not requests.suspected("new", OTHER)
    assert not requests.note("new", [POISON])  # its batch has counted
    assert requests.times("new", POISON) == 1


def test_only_so_many_are_remembered(requests, monkeypatch):
    monkeypatch.setattr(ending_requests, "KEPT", 2)
    for number in range(3):
        requests.note("new", [[b"%d" % number]])
    assert [requests.times("new", [b"%d" % number]) for number in range(3)] == [0, 1, 1]
