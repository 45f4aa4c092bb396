"""Devices on the page: they appear, go offline, are filtered and shown in detail; the broker goes away."""

import contextlib
from dataclasses import replace

import aiomqtt
import pytest
from PySide6.QtWidgets import QApplication, QDialog

from edgeopt.fleet.devices import FleetDevice
from edgeopt_gui.pages.fleet import device_rows
from edgeopt_gui.pages.fleet.connection import Connection, keep_connection, known_connection
from edgeopt_gui.pages.fleet.connection_dialog import ConnectionDialog
from edgeopt_gui.pages.fleet.device_rows import presence_text
from tests.broker import Broker
from tests.fleet.light_agents import LightFleet

WORD = "swordfish"


def shown(page):
    return {row.device: row for row in page.devices.rows.shown}


def texts(page, title):
    place = [column.title for column in device_rows.COLUMNS].index(title)
    model = page.devices.rows
    return [model.index(row, place).data() for row in range(model.rowCount())]


def test_devices_appear_and_one_goes_offline(qtbot, fleet, connect):
    fleet.add(["camera-1", "camera-2"], labels={"site": "north"})
    page = connect()
    assert page.connection.broker in page.watched()
    assert texts(page, "Release") == ["release-0", "release-0"]
    assert "2 of 2 devices online" in page.summary.text()
    fleet.add(["camera-3"])
    qtbot.waitUntil(lambda: len(shown(page)) == 3)
    page.devices.table.pick("camera-1")
    fleet.do(fleet.agents["camera-1"].vanish())
    qtbot.waitUntil(lambda: not shown(page)["camera-1"].online)
    assert texts(page, "Presence")[0].startswith("offline since ")
    assert page.devices.table.current.device == "camera-1"
    assert any(
        fact.value.startswith("offline since") for group in page.devices.facts.groups for fact in group.facts
    )
    page.devices.which.setCurrentIndex(2)
    assert list(shown(page)) == ["camera-1"]
    page.devices.which.setCurrentIndex(0)
    page.devices.filter.line.setText("site=north camera-2")
    assert list(shown(page)) == ["camera-2"]


def test_a_broker_that_goes_away_is_told_and_connected_to_again(qtbot, mosquitto, tmp_path, page, fleet_name):
    broker = Broker(tmp_path)
    fleet = LightFleet(broker.port, fleet_name)
    try:
        fleet.add(["camera-1"])
        page.connect_to(Connection(broker.url, fleet_name))
        qtbot.waitUntil(lambda: page.state == "content")
        broker.stop()
        qtbot.waitUntil(lambda: page.link.state == "away")
        assert "The broker is away" in page.summary.text()
        assert page.why_not("pause") == "The broker is away; wait until it is back."
        broker.start()
        fleet.connect_again()
        qtbot.waitUntil(lambda: page.link.state == "connected" and page.link.devices["camera-1"].online)
        assert "1 of 1 devices online" in page.summary.text()
    finally:
        with contextlib.suppress(aiomqtt.MqttError):  # a test that fails while the broker is away says why
            fleet.close()
        broker.stop()


def test_without_devices_the_page_says_how_to_get_some(qtbot, page, connection, context):
    assert page.state == "empty"
    page.connect_to(connection)
    qtbot.waitUntil(lambda: page.link.known)
    assert page.state == "empty"
    assert page.getting_started.isVisible()
    page.getting_started.copy(1)
    copied = QApplication.clipboard().text().splitlines()
    assert copied == ["[mqtt]", f'url = "{connection.broker}"', 'device = "camera-1"']
    page.disconnect_from()
    qtbot.waitUntil(lambda: not context.jobs.jobs)
    assert page.state == "empty"
    assert page.link.devices == {}


def test_no_broker_is_an_error_that_says_what_to_do(qtbot, page):
    page.connect_to(Connection("mqtt://127.0.0.1:1"))
    assert page.state == "busy"
    qtbot.waitUntil(lambda: page.state == "error")
    assert "Connection refused" in page._error.sentence.text()
    assert (
        page._error.next_step.text()
        == "Check the address of the broker, user name, password file and authorities."
    )


def test_the_password_is_in_no_setting_and_no_command_line(settings, page):
    given = Connection("mqtts://broker.example.com", username="operator", password=WORD)
    keep_connection(settings, given)
    assert known_connection(settings) == replace(given, password="")
    page.connect_to(given)
    job = page.link._job
    assert WORD not in f"{job.command} {job.command.line} {given}"
    assert dict(job.command.secrets)["EDGEOPT_BROKER_PASSWORD"] == WORD
    page.disconnect_from()


@pytest.mark.parametrize(
    ("broker", "says"),
    [
        ("broker.example.com", "is not the address of a broker"),
        ("mqtt://user:pass@broker.example.com", "is not the address of a broker"),
        ("mqtt://broker.example.com", "allow it in the form"),
        ("", "is missing"),
    ],
)
def test_an_address_that_cannot_be_used_keeps_the_dialog_open(page, monkeypatch, broker, says):
    monkeypatch.delenv("EDGEOPT_BROKER", raising=False)
    page.ask_for_connection()
    dialog = page.findChild(ConnectionDialog)
    dialog.broker.setText(broker)
    dialog.accept()
    assert dialog.isVisible()
    assert says in dialog.problem.text()
    assert "--" not in dialog.problem.text()
    dialog.reject()


def test_what_is_typed_is_connected_to_with_the_password_in_the_environment(
    qtbot, page, fleet, broker, fleet_name
):
    fleet.add(["camera-1"])
    page.ask_for_connection()
    dialog = page.findChild(QDialog, "fleet-connection")
    dialog.broker.setText(broker.url)
    dialog.fleet.setText(fleet_name)
    dialog.username.setText("operator")
    dialog.password.setText(WORD)
    dialog.accept()
    qtbot.waitUntil(lambda: page.state == "content")
    assert known_connection(page.context.settings) == Connection(broker.url, fleet_name, username="operator")


def test_a_device_is_described_by_what_it_reported():
    device = FleetDevice(
        "camera-1", online=True, state="deploying", stage="SOAKING", name="digits", release="0123456789abcdef",
        latency_ms=3.2, latency_p50_ms=4.1, drift="alarm", labels={"target": "jetson"}, seen_s=1.0,
        reason="too slow",
    )  # fmt: skip
    by_title = {column.title: column.text_of(device) for column in device_rows.COLUMNS}
    assert (by_title["State"], by_title["Release"], by_title["Latency"]) == ("soaking", "0123456789ab", "4.10 ms")
    assert (by_title["Drift"], by_title["Labels"]) == ("alarm", "target=jetson")
    assert by_title["Last report"].endswith("days ago")
    facts = {fact.name: fact.value for group in device_rows.facts_of(device) for fact in group.facts}
    assert facts["Problem"] == "too slow"
    assert facts["Release"] == "0123456789abcdef"
    assert device_rows.needs_attention(device)


def test_presence_is_unknown_while_the_broker_is_away():
    assert presence_text(FleetDevice("a", online=False, since_s=0.0, unknown_since_s=60.0)).startswith(
        "unknown since"
    )
    assert presence_text(FleetDevice("a", online=True)) == "online"
