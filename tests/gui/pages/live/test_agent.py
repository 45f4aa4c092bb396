"""An agent as its events and its status tell of it."""

import msgspec
import pytest

from edgeopt.events import Progress
from edgeopt.fleet import records
from edgeopt_gui.agents.states import WORDS
from edgeopt_gui.pages.live.agent import AgentRecord

SERVING = records.Serving("0123456789ab", "digits", 1.0, 7)
STATUS = msgspec.to_builtins(
    records.Status("serving", SERVING, records.Previous("ba9876543210"), trust="unsigned")
)


@pytest.fixture
def agent():
    return AgentRecord("device:8080")


def step(state, number=1, reason=""):
    return Progress(state, reason, subject=f"deployment {number}")


def test_it_says_what_it_serves(agent):
    assert "Asking" in agent.serves()
    agent.take_status({"state": "empty", "trust": "unsigned"})
    assert agent.serves() == "Serves nothing yet: deploy a bundle."
    assert not agent.can_go_back
    agent.take_status(STATUS)
    assert agent.serves() == "Serves digits (release 0123456789ab)."
    assert (agent.trust, agent.can_go_back) == ("unsigned", True)
    degraded = records.Status("degraded", SERVING, reason="The worker of 0123456789ab crashes.")
    agent.take_status(msgspec.to_builtins(degraded))
    assert agent.serves().endswith("The worker of 0123456789ab crashes.")
    assert not agent.can_go_back
    agent.away = True
    assert "does not answer" in agent.serves()


def test_it_tells_of_the_model_that_is_watched():
    other = records.ModelStatus("serving", "other", records.Serving("fedcba987654", "other", 1.0, 8))
    first = records.ModelStatus("serving", "digits", SERVING, records.Previous("ba9876543210"))
    status = records.Status("serving", SERVING, records.Previous("ba9876543210"), models=(first, other))
    agent = AgentRecord("device:8080", "other", status)
    assert agent.models == (("", "digits"), ("other", "other"))
    assert agent.serves() == "Serves other (release fedcba987654)."
    assert agent.serves_something
    assert not agent.can_go_back
    assert AgentRecord("device:8080", "", status).can_go_back
    assert not AgentRecord("device:8080", "gone", status).serves_something


def test_an_answer_of_another_version_says_nothing_wrong(agent):
    agent.take_status(STATUS)
    agent.take_status({"serving": "digits"})
    assert "Asking" in agent.serves()


def test_the_states_of_a_deployment_are_kept_in_order(agent):
    for place, state in enumerate(("accepted", "probing", "soaking")):
        taken = agent.take_progress(step(state, 3, "a reason"), 100.0 + place)
        assert (taken.deployment, taken.state, taken.time_s) == (3, state, 100.0 + place)
    assert agent.busy
    assert agent.latest() == "Deployment 3 soaking: a reason"
    agent.take_progress(step("committed", 3), 200.0)
    assert not agent.busy
    assert [each.words for each in agent.steps] == ["accepted", "test run", "soaking", "committed"]


def test_what_is_told_again_after_a_reconnection_is_not_news(agent):
    agent.take_progress(step("soaking"), 1.0)
    assert agent.take_progress(step("soaking"), 2.0) is None
    assert len(agent.steps) == 1


def test_other_progress_is_not_about_deployments(agent):
    assert agent.take_progress(Progress("loading", "digits"), 1.0) is None
    assert agent.take_progress(Progress("x", subject="deployment of troops"), 1.0) is None


def test_a_state_of_a_newer_agent_is_shown_by_its_name(agent):
    assert agent.take_progress(step("cooling_down"), 1.0).words == "cooling down"


def test_a_rollback_by_a_person_is_listed_as_one(agent):
    agent.take_progress(step("soaking", 3), 1.0)
    agent.take_progress(step("rolled_back", 3, "digits A rollback was requested."), 2.0)
    taken_back = records.FleetDeployment(3, "ROLLED_BACK", requested=True)
    agent.take_status(msgspec.to_builtins(records.Status("serving", SERVING, deployment=taken_back)))
    agent.take_progress(Progress("committed", "digits", subject="rollback 4"), 3.0)
    agent.take_progress(step("rolled_back", 5, "digits p99 rose to 9 ms."), 4.0)
    listed = ["3  soaking", "3  rolled back on request", "4  rollback, committed", "5  rolled back"]
    assert [each.listed for each in agent.steps] == listed
    assert agent.steps[2].marker == "rollback 4 committed"


def test_every_end_of_a_deployment_has_words():
    assert {state.lower() for state in records.FINAL} <= set(WORDS)


def test_a_long_reason_is_told_in_short_and_whole(agent):
    reason = "The bundle was proved on another device, so nothing of its proof holds here. " * 3
    agent.take_progress(step("failed", 2, reason), 1.0)
    assert agent.latest().startswith("Deployment 2 refused: The bundle was proved")
    assert len(agent.latest()) < 130
    assert agent.reason() == reason
    assert agent.serves(watched=False) == "Not watched."
