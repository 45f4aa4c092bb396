"""Sequences over `ModelStreamInfer`, as `tritonclient.grpc` sends them."""

import queue

import numpy as np
from tritonclient.grpc import model_config_pb2

from edgeopt.bundle.runtime.session import load
from tests.agent.conftest import X, Y
from tests.agent.grpc.test_methods import SECONDS, tensor

H = {"name": "h", "dtype": "float32", "shape": ["batch", 2]}
HN = {"name": "hn", "dtype": "float32", "shape": ["batch", 2]}


def test_a_stream_carries_the_state_of_its_sequences(start_grpc, connect, null_bundle):
    agent = start_grpc(soak_s=0.0, soak_requests=0)
    bundle = null_bundle(inputs=(X, H), outputs=(Y, HN))
    assert agent.deploy(bundle)["state"] == "COMMITTED"
    client = connect(agent)
    config = client.get_model_config("null").config
    assert [each.name for each in config.input] == ["x"]
    assert [each.name for each in config.output] == ["y"]
    assert config.sequence_batching.max_sequence_idle_microseconds == 60_000_000
    (state,) = config.sequence_batching.state
    assert (state.input_name, state.output_name, list(state.dims)) == ("h", "hn", [-1, 2])
    assert model_config_pb2.DataType.Name(state.data_type) == "TYPE_FP32"
    xs = np.random.default_rng(0).standard_normal((3, 1, 4)).astype(np.float32)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number, x in enumerate(xs):
        for key in (5, "five"):
            client.async_stream_infer(
                *("null", [tensor(x)]), sequence_id=key, sequence_start=number == 0, sequence_end=number == 2
            )
    client.async_stream_infer("null", [tensor(xs[0])], sequence_id=5)
    found = [answers.get(timeout=SECONDS) for _ in range(7)]
    client.stop_stream()
    with load(bundle) as session:
        stream = session.stream()
        wanted = [stream.step({"x": x})["y"] for x in xs]
    for offset in (0, 1):
        np.testing.assert_allclose([r.as_numpy("y") for r, _ in found[offset:6:2]], wanted, rtol=1e-6)
    assert "There is no sequence 5 here" in str(found[6][1])
