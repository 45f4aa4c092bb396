"""A client that ends the worker with a new request each time, beside clients whose requests are answered."""

import http.client
import json

from edgeopt_agent.workers.ending_requests import FailingClients
from tests.agent.deployments.soaks import soaking

BAD, GOOD = "127.0.0.2", "127.0.0.1"
RELEASE = "r"


def post(agent, client, *values):
    """Sends a request from an address of the client's own."""
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": values}
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=60.0, source_address=(client, 0))
    try:
        connection.request("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def end_workers(agent, times):
    """Ends the worker with different requests of one client; the other one is answered in between."""
    for number in range(times):
        assert post(agent, GOOD, 1, 2, 3, 4) == 200
        assert post(agent, BAD, -1, 2, 3, number) == 503
        agent.until(lambda: agent.status()["serving"], "the next worker")


def test_one_client_does_not_make_a_release_go_back(start_serving, make_null_bundle):
    agent = start_serving(restart_delay_s=0.01)
    new = make_null_bundle(crash_on=-1)
    assert agent.deploy(new)["state"] == "COMMITTED"
    end_workers(agent, 5)
    assert agent.status()["crashes"] == 5
    assert agent.status()["deployment"]["kind"] == "deploy"
    agent.serves(new)


def test_the_only_client_of_a_release_makes_it_go_back(start_serving, old_bundle, make_null_bundle):
    agent = start_serving(restart_delay_s=0.01)
    assert agent.deploy(make_null_bundle(crash_on=-1))["state"] == "COMMITTED"
    for number in range(3):
        assert post(agent, BAD, -1, 2, 3, number) == 503
        agent.until(lambda: agent.status()["serving"], "the next worker")
    agent.until(lambda: agent.status()["deployment"]["kind"] == "rollback", "the way back")
    agent.serves(old_bundle)


def test_in_a_soak_each_request_of_a_client_counts(start_serving, old_bundle, make_null_bundle):
    agent = start_serving(restart_delay_s=0.01)
    number = soaking(agent, make_null_bundle(crash_on=-1))
    for value in range(3):
        agent.until(lambda: agent.status()["serving"], "the worker")
        post(agent, GOOD, 1, 2, 3, 4)
        post(agent, BAD, -1, 2, 3, value)
        agent.until(lambda ended=value + 1: agent.status()["crashes"] >= ended or not soaks(agent), "the end")
    assert agent.ended(number)["state"] == "ROLLED_BACK"
    agent.serves(old_bundle)


def soaks(agent):
    return agent.status()["deployment"]["state"] == "SOAKING"


def counted(*ends, again_s=60.0):
    """Whether each end of the worker counts; ends are pairs of a time and the clients of its requests."""
    clock = iter([time_s for time_s, _ in ends])
    clients = FailingClients(again_s, lambda: next(clock))
    clients.answered(RELEASE, GOOD)
    return [clients.counts(RELEASE, senders) for _, senders in ends]


def test_a_client_counts_again_after_a_while():
    assert counted((0.0, ["a"]), (1.0, ["a"]), (61.0, ["a"])) == [True, False, True]


def test_each_client_counts():
    assert counted((0.0, ["a"]), (1.0, ["b"]), (2.0, ["c"]), (3.0, ["b"])) == [True, True, True, False]


def test_a_batch_with_a_client_that_has_counted_does_not_count():
    assert counted((0.0, ["a"]), (1.0, ["a", "b"]), (2.0, ["b", "c"])) == [True, False, True]
