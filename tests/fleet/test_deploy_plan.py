"""What a deployment would change, asked of real agents."""

import msgspec
import pytest

from edgeopt.events import ignore
from edgeopt.fleet.client import DEFAULTS, Agent, DeployOptions
from edgeopt.fleet.deploy_plan import plan_deployment
from edgeopt.views.deploy_plan import consequence, plan_rows


@pytest.fixture
def other(bundle, change_deployment):
    """Makes the same model another release."""

    def make(**changes):
        change_deployment(bundle, **changes)
        return bundle

    return make


def test_plan_is_what_the_deployment_then_does(start_agent, conv_bundle, other):
    agent = start_agent().agent
    first = plan_deployment(agent, conv_bundle, DEFAULTS, ignore)
    assert (first.action, first.replaces, first.problem) == ("start", None, "")
    assert agent.deploy(conv_bundle, ignore).release == first.release
    assert plan_deployment(agent, conv_bundle, DEFAULTS, ignore).action == "none"
    second = plan_deployment(agent, other(summary="another one"), DEFAULTS, ignore)
    assert (second.action, second.replaces.release, second.problem) == ("replace", first.release, "")
    assert agent.releases().releases[0].id == first.release  # nothing was sent


def test_what_the_agent_would_refuse_is_known_before(serving, other):
    agent, bundle = serving.agent, other(name="other")
    plan = plan_deployment(agent, bundle, DEFAULTS, ignore)
    assert (plan.action, plan.code) == ("rename", "other-name")
    assert "clients of 'conv' would get 404" in plan.problem
    assert plan_deployment(agent, bundle, DeployOptions(rename=True), ignore).problem == ""
    beside = plan_deployment(agent, bundle, DeployOptions(add=True), ignore)
    assert (beside.action, beside.replaces, beside.problem) == ("add", None, "")
    elsewhere = other(name="conv", device={"host": "another", "cpu": "another"})
    assert plan_deployment(agent, elsewhere, DEFAULTS, ignore).code == "other-device"
    assert plan_deployment(agent, elsewhere, DeployOptions(force=True), ignore).problem == ""


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"state": "serving", "trust": "signed"}, "unsigned"),
        ({"state": "deploying", "deployment": {"id": 4, "state": "SOAKING"}}, "busy"),
    ],
)
def test_an_agent_that_takes_nothing_or_wants_a_signature(scripted, serving, conv_bundle, answer, code):
    device = msgspec.to_builtins(serving.agent.device())
    server = scripted({"GET /api/v1/status": (200, answer), "GET /api/v1/device": (200, {"device": device})})
    plan = plan_deployment(Agent(server.url), conv_bundle, DEFAULTS, ignore)
    assert plan.code == code
    assert plan.hint


def test_rows_name_both_releases_and_the_proof(serving, other):
    plan = plan_deployment(serving.agent, other(summary="another one"), DEFAULTS, ignore)
    rows = dict(plan_rows(plan))
    assert rows["Serving"].startswith(f"conv (release {plan.replaces.release})")
    assert rows["New"] == f"conv (release {plan.release}): another one"
    assert {"Speed", "Latency", "Accuracy", "Size"} <= set(rows)
    assert "stays on the device for a rollback" in consequence(plan)
