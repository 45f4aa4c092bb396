"""Which devices a rollout reaches, and what is known of them."""

import msgspec
import pytest

from edgeopt.bundle.sign import new_key
from edgeopt.bundle.signed_document import public_half
from edgeopt.errors import InputError, UsageError
from edgeopt.fleet.broker import read_broker
from edgeopt.fleet.devices import DeviceReport, FleetView
from edgeopt.fleet.mqtt_documents import DesiredBundle, DesiredState, Presence, desired_message
from edgeopt.fleet.mqtt_topics import FleetTopics
from edgeopt.fleet.rollout_documents import Control, control_message, read_control
from edgeopt.fleet.rollout_plan import in_waves, read_share, selected

TOPICS = FleetTopics()


def device(online=True, **labels):
    return DeviceReport(presence=Presence("online" if online else "offline", 1, labels=labels))


FLEET = {
    "camera-1": device(site="north"),
    "camera-2": device(site="south"),
    "lamp": device(site="north-2"),
    "only-ordered": DeviceReport(desired_sequence=5),
}


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        ("lamp,camera-1", ("lamp", "camera-1")),
        ("camera-*", ("camera-1", "camera-2")),
        ("*", ("camera-1", "camera-2", "lamp")),
        ("site=north", ("camera-1",)),
        ("site=north*, camera-1", ("camera-1", "lamp")),
    ],
)
def test_devices_are_selected_by_name_pattern_and_label(selection, found):
    assert selected(selection, FLEET) == found


def test_devices_are_selected_by_a_file(tmp_path):
    (tmp_path / "list").write_text("# cameras\ncamera-2\n\nlamp\n")
    assert selected(f"@{tmp_path / 'list'}", FLEET) == ("camera-2", "lamp")
    with pytest.raises(InputError, match="cannot be read"):
        selected(f"@{tmp_path / 'none'}", FLEET)


@pytest.mark.parametrize("selection", ["camera-3", "x*", "site=west", "", "only-ordered"])
def test_a_selection_without_devices_is_an_error(selection):
    with pytest.raises(UsageError, match="device"):
        selected(selection, FLEET)


def test_an_empty_fleet_is_an_error():
    with pytest.raises(InputError, match="No device has reported"):
        selected("*", {"only-ordered": DeviceReport(desired_sequence=5)})


@pytest.mark.parametrize(
    ("waves", "size", "sizes"),
    [("1,10%,rest", 500, [1, 50, 449]), ("1,10%,rest", 1, [1]), ("rest", 3, [3]), ("10%,rest", 5, [1, 4]),
     ("50%,50%", 5, [3, 2])],
)  # fmt: skip
def test_sizes_of_waves(waves, size, sizes):
    names = [f"d{k}" for k in range(size)]
    found = in_waves(waves, names, dict.fromkeys(names, device()))
    assert [len(each) for each in found] == sizes
    assert [name for wave in found for name in wave] == names


def test_devices_that_are_online_come_first():
    fleet = {"a": device(online=False), "b": device(), "c": device()}
    assert in_waves("1,rest", list(fleet), fleet) == (("b",), ("c", "a"))


@pytest.mark.parametrize("waves", ["1,2", "0,rest", "x", "", "-1,rest", "1.5,rest"])
def test_waves_that_reach_too_few_or_cannot_be_read_are_errors(waves):
    with pytest.raises(UsageError) as error:
        in_waves(waves, [*list(FLEET)[:3], "d"], FLEET | {"d": device()})
    assert "--waves 1,10%,rest" in error.value.hint


def test_shares():
    assert read_share("2%", "--x") == read_share("0.02", "--x") == 0.02
    for text in ("", "x", "101%", "-1", "nan"):
        with pytest.raises(UsageError, match="not a share"):
            read_share(text, "--x")


def test_a_late_last_will_and_unreadable_messages_change_nothing():
    view = FleetView(TOPICS)
    topic = TOPICS.device("a").status
    assert view.take(topic, msgspec.json.encode(Presence("online", 5))) == "a"
    view.take(topic, msgspec.json.encode(Presence("offline", 4)))
    for content in (b"{", b"\xff", b'{"state": 1}'):
        assert view.take(topic, content) == ""
    assert view.devices["a"].online
    for other in (TOPICS.rollout("r"), "x/y/a/status", TOPICS.device("-").status, TOPICS.device("a").event):
        assert view.take(other, b"{}") == ""


def test_the_desired_state_is_known_until_it_is_removed():
    view, topic = FleetView(TOPICS), TOPICS.device("a").desired
    bundle = DesiredBundle(bundle="https://host/b", digest="sha256:0")
    view.take(topic, desired_message(DesiredState(sequence=3, fleet="default", device="a", desired=bundle)))
    assert (view.devices["a"].desired, view.devices["a"].desired_sequence) == (bundle, 3)
    view.take(topic, b"")
    assert (view.devices["a"].desired, view.devices["a"].desired_sequence) == (None, 0)


def test_with_a_key_only_what_it_signed_leads_to_orders(tmp_path):
    for name in ("own", "foreign"):
        new_key(tmp_path / name)
    public = public_half(tmp_path / "own")
    bundle = DesiredBundle(bundle="https://host/b", digest="sha256:0")
    state = DesiredState(sequence=3, fleet="default", device="a", desired=bundle)
    for key, known in ((None, None), (tmp_path / "foreign", None), (tmp_path / "own", bundle)):
        view = FleetView(TOPICS, public)
        view.take(TOPICS.device("a").desired, desired_message(state, key))
        assert (view.devices["a"].desired, view.devices["a"].desired_sequence) == (known, 3)
    for key in (None, tmp_path / "foreign"):
        assert read_control(control_message(Control("pause", 1, 0.0), key), public).action == "pause"
        with pytest.raises(InputError):
            read_control(control_message(Control("rollback", 1, 0.0), key), public)
    assert read_control(control_message(Control("rollback", 1, 0.0), tmp_path / "own"), public).sequence == 1


@pytest.mark.parametrize(
    "url", ["", "broker", "http://broker", "mqtt://", "mqtts://a/b", "mqtt://u@host", "mqtt://h:x"]
)
def test_other_addresses_are_no_brokers(url):
    with pytest.raises(ValueError, match=r"."):
        read_broker(url)


def test_brokers_have_their_port_and_may_be_loopback():
    assert str(read_broker("mqtts://host")) == "mqtts://host:8883"
    assert str(read_broker("mqtt://[::1]/")) == "mqtt://[::1]:1883"
    assert read_broker("mqtt://localhost:1").loopback
    assert not read_broker("mqtt://host").loopback
