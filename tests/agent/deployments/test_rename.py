"""A bundle whose model has another name than the one that serves."""

import json

from tests.agent.deployments.soaks import soaking


def test_another_model_name_is_refused_until_it_is_asked_for(agent, null_bundle, old_bundle):
    other = null_bundle("other")
    done = agent.deploy(other)
    assert done["state"] == "FAILED"
    assert "'other', and the one that serves 'null'" in done["reason"]
    assert "--rename" in done["reason"]
    agent.serves(old_bundle)
    assert agent.deploy(other, rename=1)["state"] == "COMMITTED"
    assert agent.status()["serving"]["name"] == "other"


def test_clients_of_the_old_name_end_the_soak_of_a_renamed_model(agent, null_bundle, old_bundle):
    number = soaking(agent, null_bundle("other"), rename=1)
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
    for _ in range(20):
        agent.ask("POST", "/v2/models/null/infer", body)
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "There is no model 'null' any more" in done["reason"]
    agent.serves(old_bundle)
