import pytest

import edgeopt


@pytest.mark.timeout(120)
def test_model_that_the_agent_serves_answers_as_the_bundle(reader, conv_bundle, pictures):
    reader.type("", "edgeopt-agent run --data-dir agent-data")
    reader.type("", f"edgeopt-agent deploy '{conv_bundle}' --soak-seconds 0 --soak-requests 0")
    printed = reader.type("", "python examples/triton_client.py localhost:8080 conv data.npz")
    with edgeopt.load(conv_bundle) as session:
        best = [int(session.run({"x": each})["y"].argmax()) for each in pictures]
    assert printed.splitlines() == [f"{number} y[1, 10] best {place}" for number, place in enumerate(best)]
    with pytest.raises(AssertionError, match="nobody is not ready at"):
        reader.type("", "python examples/triton_client.py localhost:8080 nobody data.npz")
