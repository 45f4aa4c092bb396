"""Rollouts from the page, over a real broker, to light agents."""

import threading

import pytest
from PySide6.QtWidgets import QDialog, QMessageBox

from edgeopt.errors import UsageError
from edgeopt.events import ignore
from edgeopt.fleet import rollout_commands
from edgeopt.fleet.devices import FleetDevice
from edgeopt.fleet.rollout_bundle import read_bundle_of
from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport
from edgeopt.fleet.rollout_request import RolloutPauseRequest, RolloutStartRequest
from edgeopt_gui.job_words import loss, silence
from edgeopt_gui.pages.fleet import commands
from edgeopt_gui.pages.fleet.commands import RolloutChoices
from edgeopt_gui.pages.fleet.connection import Connection
from edgeopt_gui.pages.fleet.form_words import in_the_form
from edgeopt_gui.pages.fleet.preview import preview
from edgeopt_gui.pages.fleet.wave_bars import WaveBars
from edgeopt_gui.pages.fleet.waves import waves_of
from tests.gui.pages.fleet.conftest import BAD, GOOD

URL = "https://host/model.edgeopt"
NAMES = [f"camera-{number}" for number in range(1, 6)]


def choose(page, **texts):
    """Fills in the dialog as a user does, up to the confirmation."""
    page.ask_to_start()
    dialog = page.findChild(QDialog, "fleet-start")
    dialog.bundle.setText(URL)
    for name, text in texts.items():
        field = getattr(dialog, name, None) or dialog.fields[name]
        field.setText(text)
    return dialog


def confirm(page, button):
    box = page.findChild(QMessageBox, "ask")
    next(each for each in box.buttons() if each.text() == button).click()


def phase(page):
    return page.rollout.phase if page.rollout is not None else ""


def test_a_rollout_is_started_paused_resumed_and_completed(qtbot, fleet, connect, gate, behaves):
    fleet.add(NAMES, behaves, gate=gate)
    page = connect()
    dialog = choose(page, digest=f"{GOOD[7:]}  model.edgeopt", waves="1,2,rest", name="r")
    assert dialog.preview.text() == "3 waves: 1, 2 and 2 devices."
    dialog.go.click()
    qtbot.waitUntil(lambda: dialog.planned is not None)
    assert "Wave 2: 2 devices (camera-2, camera-3)" in dialog.plan.text()
    assert all(not agent.orders for agent in fleet.agents.values())
    dialog.go.click()
    qtbot.waitUntil(lambda: page.rollout is not None and page.rollouts.bars.waves[0].text == "1 soaking")
    assert page.tabs.currentWidget() is page.rollouts
    assert "This app runs the rollout" in page.rollouts.owner.text()
    page.ask_to_control("pause")
    box = page.findChild(QMessageBox, "ask")
    assert box.defaultButton().text() == "Keep it running"
    assert box.text().startswith("Pause the rollout r of ")
    assert "release-" in box.text() or "model.edgeopt" in box.text()
    confirm(page, "Pause the rollout")
    qtbot.waitUntil(lambda: phase(page) == "paused" and not page.runs.runs("r"))
    gate.set()
    qtbot.waitUntil(lambda: page.rollouts.bars.waves[0].text == "1 done")
    assert page.rollouts.bars.waves[1].text == "2 waiting"
    page.resume()
    qtbot.waitUntil(lambda: phase(page) == "completed")
    assert [wave.text for wave in page.rollouts.bars.waves] == ["1 done", "2 done", "2 done"]
    assert "Wave 3: 2 done" in page.rollouts.bars.accessibleDescription()
    qtbot.waitUntil(lambda: not page.runs.runs("r"))
    page.ask_to_control("rollback")
    confirm(page, "Roll back")
    qtbot.waitUntil(lambda: phase(page) == "rolled-back")
    assert set(fleet.serving().values()) == {"release-0"}


def test_a_bad_bundle_stops_the_rollout_with_its_reason(qtbot, fleet, connect, behaves):
    fleet.add(NAMES, behaves)
    page = connect()
    page.start(RolloutChoices(URL, BAD, "*", "1,rest", name="r"))
    qtbot.waitUntil(lambda: phase(page) == "stopped")
    assert "agrees to 3.1 dB" in page.rollouts.reason.text()
    assert page.rollouts.reason.property("role") == "problem"
    rows = {row.device: row for row in page.rollouts.rows.rows}
    assert (rows["camera-1"].state, rows["camera-2"].state) == ("failed", "planned")
    assert "agrees to 3.1 dB" in rows["camera-1"].reason
    qtbot.waitUntil(lambda: not page.runs.runs("r"))
    assert page.why_not("resume") == "The rollout is stopped."
    assert page.why_not("rollback") == ""
    qtbot.waitUntil(lambda: device_reason(page, "camera-1") != "")


def device_reason(page, name):
    return next(row.reason for row in page.devices.rows.rows if row.device == name)


def test_a_rollout_of_another_client_is_seen_and_taken_over(
    qtbot, fleet, connect, gate, behaves, connection, context
):
    fleet.add(NAMES, behaves, gate=gate)
    request = RolloutStartRequest(
        broker=connection.broker, fleet=connection.fleet, bundle=URL, digest=GOOD, to="*", waves="1,rest"
    )
    reports = []
    other = threading.Thread(target=lambda: reports.append(rollout_commands.start(request, "r", lambda _: None)))
    other.start()
    page = connect()
    qtbot.waitUntil(lambda: phase(page) == "running")
    assert "Another client runs" in page.rollouts.owner.text()
    told = []
    context.jobs.started.connect(lambda job: job.event_received.connect(told.append))
    page.resume()
    assert page.why_not("resume") == "This app runs the rollout."
    qtbot.waitUntil(lambda: told != [])
    rollout_commands.pause(RolloutPauseRequest(broker=connection.broker, fleet=connection.fleet, name="r"))
    qtbot.waitUntil(lambda: phase(page) == "paused" and not page.runs.runs("r"))
    other.join(60)
    gate.set()
    page.resume()
    qtbot.waitUntil(lambda: phase(page) == "completed")
    assert {len(agent.orders) for agent in fleet.agents.values()} == {1}


def test_what_cannot_be_asked_is_told_beside_the_rollout(qtbot, fleet, connect, behaves):
    fleet.add(NAMES[:1], behaves)
    page = connect()
    page.start(RolloutChoices("ftp:", "sha256:1", "*", name="r"))
    qtbot.waitUntil(page.message.isVisible)
    assert "64 digits" in page.message.sentence.text()


DEVICES = {name: FleetDevice(name, online=name != "camera-5", labels={"site": "north"}) for name in NAMES}


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (RolloutChoices(URL, GOOD, "*"), "3 waves: 1, 1 and 3 devices; 1 of them offline."),
        (RolloutChoices(URL, GOOD, "site=north", "rest"), "1 wave: 5 devices; 1 of them offline."),
        (RolloutChoices(URL, GOOD, "camera-1", "1"), "1 wave: 1 device."),
    ],
)
def test_the_waves_are_previewed_without_the_broker(choices, says):
    assert preview(choices, DEVICES) == says


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (RolloutChoices(URL, GOOD, "*", "1,2"), "The waves reach 3 of 5 devices."),
        (RolloutChoices(URL, GOOD, "*", "1,all"), "'all' is not the size of a wave."),
        (RolloutChoices(URL, GOOD, "door-*"), "No device of the fleet matches 'door-*'."),
        (RolloutChoices(URL, GOOD, ""), "'Devices' names no device."),
        (RolloutChoices(URL, "sha256:1", "*"), "'Digest' must be"),
        (RolloutChoices(URL, GOOD, "*", stop_at_failures="many"), "'many' is not a share."),
        (RolloutChoices(URL, GOOD, "*", max_slowdown="3x"), "'3x' is not a share."),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_form(choices, says):
    with pytest.raises(UsageError) as wrong:
        preview(choices, DEVICES)
    assert says in in_the_form(wrong.value)
    assert "--" not in in_the_form(wrong.value)


def test_the_command_line_has_what_was_chosen():
    choices = RolloutChoices(URL, GOOD, "*", name="r", min_agreement_db="40", rename=True, key="release-key")
    words = commands.start(Connection("mqtts://b", "north"), choices).arguments
    assert words[:4] == ("fleet", "rollout", "start", URL)
    assert words[(place := words.index("--min-agreement-db")) : place + 2] == ("--min-agreement-db", "40")
    assert {"--rename", "--key", "--fleet"} <= set(words)
    assert not {"--force", "--model", "--prefix"} & set(words)
    assert "broker keeps the rollout" in loss(commands.start(Connection("mqtts://b"), choices))


def test_a_fleet_in_which_nothing_happens_is_not_called_silent():
    assert silence(commands.follow(Connection("mqtts://b")), None, 3600.0) == ""
    assert silence(commands.start(Connection("mqtts://b"), RolloutChoices(URL, GOOD, "*", name="r")), None, 60.0)


def report(*devices):
    sizes = tuple(sum(each.wave == number for each in devices) for number in (1, 2))
    return RolloutReport("r", "running", "", URL, GOOD, 2, sizes, {}, devices)


def test_each_device_is_in_one_segment_and_few_of_many_are_seen(qtbot):
    many = [RolloutDevice(f"d{number}", 2, "done") for number in range(497)]
    waves = waves_of(
        report(
            RolloutDevice("a", 1, "deploying", stage="SOAKING"),
            RolloutDevice("b", 1, "deploying", stage="FETCHING"),
            RolloutDevice("c", 1, "ordered", online=False),
            RolloutDevice("d", 1, "superseded"),
            RolloutDevice("e", 2, "stuck"),
            *many,
        )
    )
    assert [wave.text for wave in waves] == [
        "1 soaking, 1 offline, 1 updating, 1 left alone",
        "497 done, 1 failed",
    ]
    bars = WaveBars()
    qtbot.addWidget(bars)
    bars.set_waves(waves)
    bars.resize(600, bars.sizeHint().height())
    bars.show()
    picture = bars.grab().toImage()
    boxes = bars.segments(waves[1], bars.rect().toRectF())
    assert boxes[-1][1].width() >= 3.9
    assert boxes[-1][1].right() == pytest.approx(600)
    assert (
        len({picture.pixelColor(x, round(bars.fontMetrics().height() * 0.8)).name() for x in range(70, 350)}) >= 4
    )


def test_a_waiting_part_of_a_wave_has_an_edge_that_stands_out_in_the_dark(qtbot, context):
    context.settings.keep("theme", "dark")
    bars = WaveBars()
    qtbot.addWidget(bars)
    bars.set_waves(waves_of(report(RolloutDevice("a", 1, "planned"), RolloutDevice("b", 2, "planned"))))
    bars.resize(600, bars.sizeHint().height())
    image = bars.grab().toImage()
    edge = [image.pixelColor(300, y).lightness() for y in range(bars.fontMetrics().height() * 2)]
    background = bars.palette().window().color().lightness()
    assert max(edge) > background + 90


@pytest.mark.parametrize("url", ["docker://registry/model", "http://models.example.com/m.edgeopt"])
def test_what_is_wrong_with_the_bundle_is_said_in_the_words_of_the_form(url):
    with pytest.raises(UsageError) as wrong:
        read_bundle_of(RolloutStartRequest(bundle=url, to="*"), ignore)
    assert "--" not in in_the_form(wrong.value)
