"""The engine of rollouts in which kinds of devices search for themselves: no broker, no clock."""

import msgspec
import pytest

from edgeopt.fleet.devices import DeviceReport
from edgeopt.fleet.mqtt_documents import CommandAnswer, DesiredBundle, Presence, Reported, SearchReport
from edgeopt.fleet.records import Status
from edgeopt.fleet.rollout import control, missing_orders
from edgeopt.fleet.rollout_documents import Control, DeviceProgress, Limits, Rollout, RolloutSearch
from edgeopt.fleet.rollout_merge import merged
from tests.fleet.test_rollout import SEQUENCE, report, run

WISHES = RolloutSearch(
    model="https://host/m.onnx", model_digest="sha256:" + "a" * 64, store="https://host/found/", time_limit_s=60.0
)
replace = msgspec.structs.replace


def rollout(*waves, **limits):
    devices = {name: DeviceProgress() for wave in waves for name in wave}
    return Rollout(
        name="r", fleet="default", sequence=SEQUENCE, desired=DesiredBundle(model="m"), waves=waves,
        devices=devices, limits=Limits(**limits), search=WISHES,
    )  # fmt: skip


def device(kind="k", online=True, search=None, answer=None):
    labels = {"kind": kind} if kind else {}
    return DeviceReport(
        presence=Presence("online" if online else "offline", 1, labels=labels),
        reported=Reported(1, 0.0, Status("empty"), search=search),
        answer=answer,
    )


def found(kind="k", attempt=1, state="done", **more):
    return SearchReport(id=f"r.{SEQUENCE}.{kind}.{attempt}", state=state, time_s=1.0, **more)


def ready(known, kind="k"):
    """The rollout after the client has checked the bundle that was found."""
    assert known.kinds[kind].state == "found"
    return replace(known, kinds={**known.kinds, kind: replace(known.kinds[kind], state="ready")})


def searches(orders):
    return [(each.device, each.command.search.id) for each in orders if each.command and each.command.search]


def deployments(orders):
    return {each.device: each.document.desired.bundle for each in orders if each.document is not None}


def states(known):
    return {name: each.state for name, each in known.devices.items()}


def test_first_connected_device_of_each_kind_searches_and_others_wait():
    reports = {"a": device(online=False), "b": device(), "c": device(), "d": device("other")}
    known, orders = run(rollout(("a", "b", "c", "d")), reports)
    assert searches(orders) == [("b", f"r.{SEQUENCE}.k.1"), ("d", f"r.{SEQUENCE}.other.1")]
    assert orders[0].command.search.put == f"https://host/found/r.{SEQUENCE}.k.1.edgeopt"
    assert states(known) == dict.fromkeys("abcd", "waiting")
    assert run(known, reports) == (known, [])


def test_bundle_goes_to_all_devices_of_the_kind_and_a_later_wave_does_not_search():
    reports = {"a": device(), "b": device(online=False), "c": device()}
    known, _ = run(rollout(("a", "b"), ("c",)), reports)
    reports["a"] = device(search=found(digest="sha256:" + "b" * 64, speedup=2.0, summary="int8"))
    known, orders = run(known, reports)
    assert (orders, known.kinds["k"].speedup, known.kinds["k"].summary) == ([], 2.0, "int8")
    known, orders = run(ready(known), reports)
    place = f"https://host/found/r.{SEQUENCE}.k.1.edgeopt"
    assert deployments(orders) == {"a": place, "b": place}
    assert orders[0].document.desired == DesiredBundle(model="m", bundle=place, digest="sha256:" + "b" * 64)
    reports["a"] = replace(report("COMMITTED"), presence=reports["a"].presence)
    known, orders = run(known, reports)
    assert deployments(orders) == {"c": place}
    assert searches(orders) == []


def test_failed_search_fails_the_devices_of_its_kind_only():
    reports = {"a": device(), "b": device("other"), "c": device()}
    known, _ = run(rollout(("a", "b"), ("c",), stop_at_failures=0.9), reports)
    reports["a"] = device(search=found(state="failed", code="usage", reason="No metric of your own."))
    known, orders = run(known, reports)
    assert states(known) == {"a": "failed", "b": "waiting", "c": "planned"}
    assert known.devices["a"].reason == "the search of a for its kind failed: No metric of your own."
    assert orders == []
    reports["b"] = device("other", search=found("other", digest="sha256:" + "b" * 64))
    known, orders = run(ready(run(known, reports)[0], "other"), reports)
    assert set(deployments(orders)) == {"b"}
    reports["b"] = replace(report("COMMITTED"), presence=reports["b"].presence)
    known, orders = run(known, reports)
    assert (known.phase, states(known)) == ("completed", {"a": "failed", "b": "done", "c": "failed"})


def test_too_many_failed_searches_stop_the_rollout():
    refusal = CommandAnswer(403, {"error": {"message": "This agent runs no measurements for others."}})
    known, _ = run(rollout(("a",), ("b",)), {"a": device(), "b": device()})
    known, orders = run(known, {"a": device(answer=refusal), "b": device()})
    assert (known.phase, orders) == ("stopped", [])
    assert "refused: This agent runs no measurements" in known.reason


def test_search_that_a_restart_ended_is_ordered_once_more_only():
    lost = {"state": "failed", "code": "restarted", "reason": "the agent was restarted meanwhile"}
    known, _ = run(rollout(("a",)), {"a": device()})
    known, orders = run(known, {"a": device(search=found(**lost))})
    assert searches(orders) == [("a", f"r.{SEQUENCE}.k.2")]
    known, orders = run(known, {"a": device(search=found(attempt=2, **lost))})
    assert (known.phase, searches(orders)) == ("stopped", [])


def test_search_that_says_nothing_fails_in_the_end():
    limit_s = 10.0 + 2 * WISHES.time_limit_s
    known, _ = run(rollout(("a",), device_timeout_s=10.0), {"a": device()})
    known, _ = run(known, {"a": device(search=found(state="running", step="measuring"))}, now_s=5.0)
    assert known.kinds["k"].step == "measuring"
    silent = {"a": device(search=found(state="running", step="measuring"))}
    assert run(known, silent, now_s=5.0 + limit_s)[0].kinds["k"].state == "searching"
    known, _ = run(known, silent, now_s=5.1 + limit_s)
    assert (known.phase, known.kinds["k"].reason) == ("stopped", "stuck in 'measuring' for 130 s")


def test_wave_waits_for_a_search_whose_device_went_offline():
    known, _ = run(rollout(("a",), ("b",)), {"a": device(), "b": device()})
    known, orders = run(known, {"a": device(online=False), "b": device()})
    assert (orders, known.wave, states(known)) == ([], 1, {"a": "waiting", "b": "planned"})


def test_device_that_tells_no_kind_fails():
    known, _ = run(rollout(("a",)), {"a": device(kind="")})
    assert known.devices["a"].reason == "it tells no kind: update its agent, or set the label `kind`"


def test_devices_that_stay_offline_are_named_at_the_end():
    reports = {"a": device(), "b": device("other", online=False)}
    known, _ = run(rollout(("a", "b")), reports)
    reports["a"] = device(search=found(digest="sha256:" + "b" * 64))
    known, _ = run(ready(run(known, reports)[0]), reports)
    reports["a"] = replace(report("COMMITTED"), presence=reports["a"].presence)
    known, _ = run(known, reports)
    said = "1 device offline got nothing, because no device has searched for the kind"
    assert (known.phase, known.reason) == ("completed", said)


@pytest.mark.parametrize("told", [None, found(attempt=9, state="running")])
def test_order_that_was_lost_is_sent_again(told):
    known, orders = run(rollout(("a",)), {"a": device()})
    assert missing_orders(known, {"a": device(search=told)}) == tuple(orders)
    assert missing_orders(known, {"a": device(search=found(state="running"))}) == ()


def test_cancelled_rollout_ends_searches_and_orders_nothing():
    known, _ = run(rollout(("a", "b")), {"a": device(), "b": device()})
    known, orders = run(control(known, Control("cancel", 2000, 5.0)), {"a": device(), "b": device()})
    assert [(each.device, each.command.command, each.command.id) for each in orders] == [
        ("a", "cancel-search", f"r.{SEQUENCE}.k.1")
    ]
    assert states(known) == {"a": "withdrawn", "b": "withdrawn"}
    assert known.kinds["k"].state == "failed"


def test_two_clients_come_to_the_same_kinds():
    known, _ = run(rollout(("a",)), {"a": device()})
    later, _ = run(known, {"a": device(search=found(digest="sha256:" + "b" * 64))})
    for mine, theirs in ((known, later), (later, known)):
        assert merged(mine, theirs).kinds == later.kinds
    assert merged(rollout(("a",)), later).kinds == later.kinds
