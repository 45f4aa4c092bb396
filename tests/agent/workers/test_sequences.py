"""Sequences of requests to a model that carries state, as Triton's clients send them."""

import json

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from edgeopt.bundle.runtime.session import load
from tests.agent.conftest import X, Y
from tests.agent.infer_request import infer_request

H = {"name": "h", "dtype": "float32", "shape": ["batch", 2]}
HN = {"name": "hn", "dtype": "float32", "shape": ["batch", 2]}


@pytest.fixture
def stateful(null_bundle):
    return null_bundle(inputs=(X, H), outputs=(Y, HN))


@pytest.fixture
def start(serving, stateful):
    """Starts a server of the stateful model; the server and a client."""
    clients = []

    def start(**settings):
        server = serving(**settings)
        server.deploy(stateful)
        clients.append(triton.InferenceServerClient(server.place))
        return server, clients[-1]

    yield start
    for client in clients:
        client.close()


def steps(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 1, 4)).astype(np.float32)


def tensor(array, name="x"):
    given = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    return given.set_data_from_numpy(array)


def ask(client, x, sequence, *more, **parameters):
    return client.infer("null", [tensor(x), *more], sequence_id=sequence, **parameters)


def by_hand(bundle, xs, initial=None):
    with load(bundle) as session:
        stream = session.stream(initial=initial)
        return [stream.step({"x": x})["y"] for x in xs]


def test_another_batch_in_a_sequence_is_refused_and_the_sequence_goes_on(start, stateful):
    _, client = start()
    xs = steps(2)
    ask(client, xs[0], 7, sequence_start=True)
    with pytest.raises(
        InferenceServerException, match="'x' has the size 3 on axis 0, but the state 'h'"
    ) as caught:
        ask(client, np.repeat(xs[1], 3, axis=0), 7)
    assert caught.value.status() == "400"
    np.testing.assert_allclose(ask(client, xs[1], 7).as_numpy("y"), by_hand(stateful, xs)[1], rtol=1e-6)


def test_steps_of_several_sequences_carry_their_own_state(start, stateful):
    _, client = start()
    sequences = {7: steps(4), "other": steps(4, seed=1)}
    found = {key: [] for key in sequences}
    for number in range(4):
        for key, xs in sequences.items():
            answer = ask(client, xs[number], key, sequence_start=number == 0, sequence_end=number == 3)
            assert [output["name"] for output in answer.get_response()["outputs"]] == ["y"]
            found[key].append(answer.as_numpy("y"))
    for key, xs in sequences.items():
        np.testing.assert_allclose(found[key], by_hand(stateful, xs), rtol=1e-6)
        assert not np.allclose(found[key][1:], [by_hand(stateful, [x])[0] for x in xs[1:]])
        with pytest.raises(InferenceServerException, match="There is no sequence"):
            ask(client, xs[0], key)


def test_the_first_request_may_give_the_state(start, stateful):
    _, client = start()
    initial = np.full((1, 2), 3.0, np.float32)
    xs = steps(2)
    found = [
        ask(client, xs[0], 1, tensor(initial, "h"), sequence_start=True).as_numpy("y"),
        ask(client, xs[1], 1).as_numpy("y"),
    ]
    np.testing.assert_allclose(found, by_hand(stateful, xs, {"h": initial}), rtol=1e-6)
    with pytest.raises(InferenceServerException, match="only the first request of a sequence gives"):
        ask(client, xs[1], 1, tensor(initial, "h"))


def test_sequences_are_bounded_in_number(start):
    _, client = start(max_sequences=2)
    x = steps(1)[0]
    for number in (1, 2):
        ask(client, x, number, sequence_start=True)
    with pytest.raises(InferenceServerException, match="2 sequences are open already") as caught:
        ask(client, x, 3, sequence_start=True)
    assert caught.value.status() == "503"
    ask(client, x, 1, sequence_start=True)  # begins again, and takes no other place
    ask(client, x, 2, sequence_end=True)
    ask(client, x, 3, sequence_start=True)


def test_an_idle_sequence_is_forgotten(start):
    _, client = start(sequence_idle_s=0.0)
    x = steps(1)[0]
    ask(client, x, 1, sequence_start=True)
    with pytest.raises(InferenceServerException, match="idle for more than 0 s"):
        ask(client, x, 1)


def test_requests_without_a_sequence_need_the_state(start, stateful):
    _, client = start()
    x, h = steps(1)[0], np.ones((1, 2), np.float32)
    answer = client.infer("null", [tensor(x), tensor(h, "h")])
    assert {output["name"] for output in answer.get_response()["outputs"]} == {"y", "hn"}
    with load(stateful) as session:
        np.testing.assert_allclose(answer.as_numpy("hn"), session.run({"x": x, "h": h})["hn"], rtol=1e-6)
    with pytest.raises(InferenceServerException, match="The input 'h' is missing"):
        client.infer("null", [tensor(x)])


def test_a_new_release_says_that_it_does_not_have_the_sequence(start, null_bundle):
    server, client = start()
    x = steps(1)[0]
    ask(client, x, 1, sequence_start=True)
    old = server.router.serving
    server.deploy(null_bundle(inputs=(X, H), outputs=(Y, HN), noise=0.5), "c0ffee000000")
    server.do(old.stop())
    with pytest.raises(InferenceServerException, match="replaced or started again") as caught:
        ask(client, x, 1)
    assert caught.value.status() == "400"


def test_sequences_and_batches_go_together(start, stateful):
    _, client = start(batch_max_size=4, batch_max_delay_us=1000)
    xs = steps(3)
    found = [ask(client, x, 1, sequence_start=n == 0).as_numpy("y") for n, x in enumerate(xs)]
    np.testing.assert_allclose(found, by_hand(stateful, xs), rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"sequence_start": True}, "need a sequence_id"),
        ({"sequence_id": "n" * 129}, "at most 128 characters"),
        ({"sequence_id": 1.5}, "not a v2 inference request"),
    ],
)
def test_wrong_parameters_are_named(start, parameters, words):
    server, _ = start()
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    body = json.dumps({"inputs": [x], "parameters": parameters}).encode()
    answer = server.do(server.router.infer(infer_request(body)))
    assert answer.status == 400
    assert words in answer.reason()


def test_a_step_that_hangs_loses_the_state_of_its_worker_and_says_so(serving, null_bundle):
    server = serving(hang_timeout_s=1.0, request_timeout_s=20.0)
    bundle = null_bundle(inputs=(X, H), outputs=(Y, HN), hang_on=-1)
    worker = server.deploy(bundle)
    server.do(worker.golden(20.0))
    client = triton.InferenceServerClient(server.place)
    ask(client, steps(1)[0], 7, sequence_start=True)
    with pytest.raises(InferenceServerException, match="hung: no answer within"):
        ask(client, np.full((1, 4), -1, np.float32), 7)
    server.deploy(bundle)
    with pytest.raises(InferenceServerException, match="sequence"):
        ask(client, steps(1)[0], 7)
    ask(client, steps(1)[0], 7, sequence_start=True)
    client.close()
