"""The page against a running agent: deployments and a rollback as they happen, and the agent that goes away."""

import json
import shutil
import subprocess
import sys
from urllib.request import urlopen

import pytest
from PySide6.QtCore import Qt

from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.pages.live.page import ACTIONS, ENTRY
from edgeopt_gui.pages.live.readouts import NOTHING
from tests.ports import free_port

LONG_MS = 60_000


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def start_agent(tmp_path, port):
    running = []

    def start():
        command = ["run", "--data-dir", str(tmp_path / "agent"), "--port", str(port)]
        soak = ["--soak-seconds", "0.5", "--soak-requests", "3"]
        process = subprocess.Popen(
            [sys.executable, "-m", "edgeopt_agent.main", *command, *soak],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        assert "listens at" in process.stdout.readline()
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def url(port):
    return f"127.0.0.1:{port}"


@pytest.fixture
def other_bundle(conv_bundle, tmp_path, change_deployment):
    """The same model as another release."""
    other = shutil.copytree(conv_bundle, tmp_path / "other.edgeopt")
    change_deployment(other, summary="another one")
    return other


@pytest.fixture
def page(qtbot, open_page):
    made = open_page(ENTRY)
    qtbot.waitUntil(lambda: made.view is not None, timeout=LONG_MS)
    return made


def states(page, number):
    return [step.state for step in page.session.agent.steps if step.deployment == number]


def why_not(page, key):
    return next(each for each in ACTIONS if each.key == key).why_not(page)


def deploy(qtbot, page):
    """By the dialog, once the agent has told what would change."""
    next(each for each in ACTIONS if each.key == "live.deploy").run(page)
    dialog = page.findChildren(DeployDialog)[-1]
    qtbot.waitUntil(dialog.go.isEnabled, timeout=LONG_MS)
    qtbot.mouseClick(dialog.go, Qt.MouseButton.LeftButton)
    return dialog


@pytest.mark.slow
def test_a_session_with_an_agent(qtbot, page, start_agent, url, conv_bundle, other_bundle):
    context, agent = page.context, start_agent()
    page.connect_to(url)
    qtbot.waitUntil(
        lambda: page.session.agent is not None and page.session.agent.status is not None, timeout=LONG_MS
    )
    assert page.state == "content"
    assert page.view.agent.serves.text() == "Serves nothing yet: deploy a bundle."
    assert page.view.agent.trust.text().startswith("Unsigned")
    assert why_not(page, "live.rollback") == "The agent has no release to roll back to."

    context.use_bundle(conv_bundle)
    deploy(qtbot, page)
    qtbot.waitUntil(lambda: "committed" in states(page, 1), timeout=LONG_MS)
    qtbot.waitUntil(lambda: page.view.agent.serves.text().startswith("Serves conv"), timeout=LONG_MS)
    assert "soaking" in states(page, 1)

    page.view.agent.rate.setValue(50.0)
    page.view.agent.traffic.setChecked(True)
    assert page.command().arguments[-2:] == ("--send", "50")
    rings = page.session.history.rings
    qtbot.waitUntil(lambda: "latency_p99_ms" in rings and len(rings["latency_p99_ms"]) > 10, timeout=LONG_MS)
    qtbot.waitUntil(lambda: page.view.figures.text_of("p50") not in {"", NOTHING}, timeout=LONG_MS)
    assert len(rings["process_memory_bytes"]) > 10
    qtbot.waitUntil(page.view.strip.isVisible, timeout=LONG_MS)
    assert page.context.settings.agents() == (f"http://{url}",)

    context.use_bundle(other_bundle)
    qtbot.waitUntil(lambda: why_not(page, "live.deploy") == "", timeout=LONG_MS)
    deploy(qtbot, page)
    qtbot.waitUntil(lambda: "committed" in states(page, 2), timeout=LONG_MS)
    qtbot.waitUntil(lambda: why_not(page, "live.rollback") == "", timeout=LONG_MS)
    page.roll_back()
    qtbot.waitUntil(lambda: "committed" in states(page, 3), timeout=LONG_MS)
    marked = [marker.label for marker in page.session.history.markers]
    assert {"deployment 1 committed", "rollback 3 committed"} <= set(marked)

    agent.kill()
    agent.wait()
    qtbot.waitUntil(lambda: page.session.agent.away, timeout=LONG_MS)
    assert page.state == "content"
    assert "went away" in page.view.message.sentence.text()
    assert why_not(page, "live.deploy") == "The agent does not answer; wait until it is back."
    kept = len(rings["load_percent"])

    start_agent()
    qtbot.waitUntil(lambda: not page.session.agent.away, timeout=LONG_MS)
    qtbot.waitUntil(lambda: len(rings["load_percent"]) > kept + 5, timeout=LONG_MS)
    assert not page.view.message.isVisible()
    qtbot.waitUntil(lambda: page.view.agent.serves.text().startswith("Serves conv"), timeout=LONG_MS)
    page.leave_agent()
    qtbot.waitUntil(lambda: context.jobs.jobs == (), timeout=LONG_MS)
    assert page.url == ""


def test_each_model_of_an_agent_can_be_watched(
    qtbot, page, start_agent, url, conv_bundle, other_bundle, change_deployment
):
    change_deployment(other_bundle, name="second")
    start_agent()
    client = Agent(url, timeout_s=60.0)
    client.deploy(conv_bundle, lambda _: None, DeployOptions(soak_s=0.0, soak_requests=0))
    page.connect_to(url)
    panel = page.view.agent
    qtbot.waitUntil(lambda: panel.model.count() == 1, timeout=LONG_MS)
    assert panel.model.isHidden()
    # Not sent by this app: the agent tells of it.
    client.deploy(other_bundle, lambda _: None, DeployOptions(soak_s=0.0, soak_requests=0, add=True))
    qtbot.waitUntil(lambda: panel.model.count() == 2, timeout=LONG_MS)
    assert [panel.model.itemText(k) for k in range(2)] == ["conv", "second"]
    assert panel.model.isVisible()
    assert panel.model.currentText() == "conv"

    qtbot.keyClick(panel.model, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: panel.serves.text().startswith("Serves second (release"), timeout=LONG_MS)
    assert page.command().arguments[-2:] == ("--model", "second")
    qtbot.waitUntil(lambda: states(page, 1) == ["committed"], timeout=LONG_MS)
    assert page.command_of_roll_back().arguments[-2:] == ("--model", "second")
    panel.rate.setValue(50.0)
    panel.traffic.setChecked(True)
    rings = page.session.history.rings
    for name in ("latency_p99_ms", "process_memory_bytes"):
        qtbot.waitUntil(lambda name=name: name in rings and len(rings[name]) > 3, timeout=LONG_MS)
    counts = {each["name"]: each["inference_count"] for each in statistics(url)}
    assert counts.get("conv", 0) == 0
    assert counts["second"] > 3

    page.stop()
    qtbot.waitUntil(lambda: not page._watcher.running, timeout=LONG_MS)
    page.start()
    assert page.command().arguments[:6] == ("fleet", "watch", "--url", url, "--model", "second")
    panel.traffic.setChecked(False)
    qtbot.waitUntil(lambda: page._connected and page.session.sampled, timeout=LONG_MS)

    client.remove("second")
    qtbot.waitUntil(lambda: panel.serves.text().startswith("Serves conv"), timeout=LONG_MS)
    qtbot.waitUntil(panel.model.isHidden, timeout=LONG_MS)
    assert page.command().arguments == ("fleet", "watch", "--url", url)
    qtbot.waitUntil(lambda: page.session.sampled and page.view.message.isVisible(), timeout=LONG_MS)
    assert page.view.message.sentence.text().startswith("The model 'second' was removed from the agent.")


def statistics(url):
    with urlopen(f"http://{url}/v2/models/stats") as answer:
        return json.load(answer)["model_stats"]


def test_a_bundle_that_is_refused_says_why(qtbot, context, page, start_agent, url, bundle):
    start_agent()
    model = bundle / "model" / "conv.onnx"
    model.write_bytes(model.read_bytes()[:-20])
    page.connect_to(url)
    context.use_bundle(bundle)
    qtbot.waitUntil(lambda: why_not(page, "live.deploy") == "", timeout=LONG_MS)
    next(each for each in ACTIONS if each.key == "live.deploy").run(page)
    dialog = page.findChild(DeployDialog)
    qtbot.waitUntil(dialog.problem.isVisible, timeout=LONG_MS)
    assert "conv.onnx" in dialog.problem.text()
    assert not dialog.go.isEnabled()
