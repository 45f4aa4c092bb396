"""The dialog against a real agent: the plan, the deployment, its end by the user, and what goes wrong."""

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt_gui.agents.access_dialog import AccessDialog
from tests.fleet.conftest import Scripted


def shown(dialog):
    return {fact.name: fact.value for group in dialog.facts.groups for fact in group.facts}


def press(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.fixture
def agent(agent_url):
    return Agent(agent_url, timeout_s=60.0)


@pytest.fixture
def other(bundle, change_deployment):
    change_deployment(bundle, summary="another one")
    return bundle


@pytest.fixture
def serving(agent, conv_bundle):
    """The agent serves the first release, whatever the test before left."""
    agent.deploy(conv_bundle, lambda _: None, DeployOptions(soak_s=0.0, soak_requests=0))
    return agent.status().serving


def test_it_asks_nobody_until_there_is_an_agent_that_answered_before(qtbot, context, open_dialog, conv_bundle):
    dialog = open_dialog(conv_bundle)
    assert dialog.url == "http://127.0.0.1:8080"
    assert context.jobs.jobs == ()
    assert not dialog.go.isEnabled()
    assert shown(dialog) == {"Bundle": conv_bundle.name}
    context.settings.remember_agent("http://device:8080")
    known = open_dialog(conv_bundle)
    assert known.agent.itemText(0) == "http://device:8080"
    assert len(context.jobs.jobs) == 1


def test_it_says_what_changes_and_then_deploys(qtbot, context, open_dialog, agent_url, agent, serving, other):
    dialog = open_dialog(other, [("Memory added", "20 MiB; source model 22 MiB")], agent_url)
    qtbot.waitUntil(dialog.go.isEnabled)
    rows = shown(dialog)
    assert rows["Serving"].startswith(f"conv (release {serving.release})")
    assert "another one" in rows["New"]
    assert rows["Memory added"] == "20 MiB; source model 22 MiB"
    assert {"Speed", "Latency", "Accuracy", "Size"} <= set(rows)
    assert "for a rollback" in dialog.consequence.text()
    assert dialog.go.text() == f"Deploy to {agent_url}"
    assert agent.status().serving.release == serving.release  # nothing was sent

    press(qtbot, dialog.go)
    assert dialog.stop.isVisible()
    assert not dialog.go.isVisible()
    qtbot.waitUntil(dialog.watch.isVisible)
    assert "serves at" in dialog.doing.text()
    rows = shown(dialog)
    assert rows["Serves now"].startswith(f"{dialog.deployer.plan.name} (release {dialog.deployer.plan.release})")
    assert rows["For a rollback"].startswith(f"conv (release {serving.release})")
    assert agent.status().serving.release == dialog.deployer.plan.release
    wanted = []
    context.agent_requested.connect(wanted.append)
    press(qtbot, dialog.watch)
    assert wanted == [agent_url]


def test_cancelled_while_it_soaks_the_release_before_serves_again(
    qtbot, open_dialog, agent_url, agent, serving, other, monkeypatch
):
    dialog = open_dialog(other, url=agent_url)
    qtbot.waitUntil(dialog.go.isEnabled)
    command = dialog.deployer.command()
    long_soak = type(command)(command.title, (*command.arguments, "--soak-seconds", "600"))
    monkeypatch.setattr(dialog.deployer, "command", lambda: long_soak)
    press(qtbot, dialog.go)
    qtbot.waitUntil(lambda: dialog.doing.text().startswith("Soaking"))
    press(qtbot, dialog.stop)
    assert dialog.doing.text() == "Cancelling…"
    qtbot.waitUntil(lambda: dialog.doing.text().startswith("Cancelled."))
    assert dialog.problem.text() == ""
    assert dialog.go.isEnabled()
    assert agent.status().serving.release == serving.release


def test_another_name_offers_to_replace_or_to_serve_both(
    qtbot, open_dialog, agent_url, serving, bundle, change_deployment
):
    change_deployment(bundle, name="second")
    dialog = open_dialog(bundle, url=agent_url)
    qtbot.waitUntil(lambda: "would get 404" in dialog.problem.text())
    assert not dialog.go.isEnabled()
    offered = {each.text(): each for each in dialog.findChildren(QPushButton)}
    press(qtbot, offered["Serve both"])
    qtbot.waitUntil(dialog.go.isEnabled)
    assert dialog.consequence.text() == "It is served beside the other models."
    assert dialog.deployer.command().arguments[-1] == "--add"


def test_an_agent_that_is_away_is_named_and_another_can_be_asked(qtbot, open_dialog, agent_url, serving, other):
    dialog = open_dialog(other)
    dialog.agent.setEditText("http://127.0.0.1:9")
    press(qtbot, dialog.ask)
    qtbot.waitUntil(lambda: dialog.problem.text() != "")
    assert "No agent listens at http://127.0.0.1:9" in dialog.problem.text()
    assert not dialog.go.isEnabled()
    dialog.agent.setEditText(agent_url)
    assert dialog.problem.text() == ""
    press(qtbot, dialog.ask)
    qtbot.waitUntil(dialog.go.isEnabled)


def test_what_serves_already_cannot_be_deployed(qtbot, open_dialog, agent_url, serving, conv_bundle):
    dialog = open_dialog(conv_bundle, url=agent_url)
    qtbot.waitUntil(lambda: "serves already" in dialog.consequence.text())
    assert not dialog.go.isEnabled()


@pytest.fixture
def scripted(agent):
    """An agent that answers as it is told, with the device of the real one."""
    device = msgspec.to_builtins(agent.device())
    servers = []

    def start(**answers):
        known = {"GET /api/v1/device": (200, {"device": device}), "GET /api/v1/status": (200, {"state": "empty"})}
        given = {f"{key.partition('_')[0]} /api/v1/{key.partition('_')[2]}": each for key, each in answers.items()}
        servers.append(Scripted(known | given))
        return servers[-1].url

    yield start
    for each in servers:
        each.close()


def refusal(code, message):
    return {"error": {"code": code, "message": message, "hint": ""}}


def test_a_refused_token_asks_for_another(qtbot, open_dialog, scripted, conv_bundle):
    url = scripted(GET_status=(401, refusal("wrong-token", "The access token is not valid.")))
    dialog = open_dialog(conv_bundle, url=url)
    qtbot.waitUntil(lambda: "The access token is not valid." in dialog.problem.text())
    offered = {each.text(): each for each in dialog.findChildren(QPushButton)}
    press(qtbot, offered["Enter an access token…"])
    assert dialog.findChild(AccessDialog).isVisible()


def test_an_agent_that_wants_a_signature_is_known_before(qtbot, open_dialog, scripted, conv_bundle):
    dialog = open_dialog(conv_bundle, url=scripted(GET_status=(200, {"state": "empty", "trust": "signed"})))
    qtbot.waitUntil(lambda: "accepts only signed bundles" in dialog.problem.text())
    assert "edgeopt sign" in dialog.problem.text()
    assert not dialog.go.isEnabled()


def test_a_device_without_room_says_so(qtbot, open_dialog, scripted, conv_bundle):
    full = "The disk of the agent's data folder is full: the bundle needs 2 MiB, and 1 MiB are free."
    dialog = open_dialog(conv_bundle, url=scripted(POST_deploy=(507, refusal("disk-full", full))))
    qtbot.waitUntil(dialog.go.isEnabled)
    press(qtbot, dialog.go)
    qtbot.waitUntil(lambda: full in dialog.problem.text())
    assert not dialog.stop.isVisible()
    assert dialog.go.isEnabled()
