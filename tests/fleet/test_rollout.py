"""The engine of rollouts: no broker, no clock."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.fleet.devices import DeviceReport
from edgeopt.fleet.mqtt_documents import CommandAnswer, DesiredBundle, Following, Presence, Reported
from edgeopt.fleet.records import FleetDeployment, ModelStatus, Serving, Status
from edgeopt.fleet.rollout import advance, control, counts, deploy_order, missing_orders
from edgeopt.fleet.rollout_documents import Control, DeviceProgress, Limits, Rollout
from edgeopt.fleet.rollout_merge import merged

NEW = DesiredBundle(bundle="https://host/new.edgeopt", digest="sha256:" + "a" * 64)
OLD = DesiredBundle(bundle="https://host/old.edgeopt", digest="sha256:" + "b" * 64)
SEQUENCE = 1000
replace = msgspec.structs.replace


def rollout(*waves, **limits):
    devices = {name: DeviceProgress() for wave in waves for name in wave}
    return Rollout(
        name="r", fleet="default", sequence=SEQUENCE, desired=NEW, waves=waves, devices=devices,
        limits=Limits(**limits),
    )  # fmt: skip


def report(state="", online=True, sequence=SEQUENCE, before=True, latency_ms=None, release="old", **more):
    """A device: idle, or with a deployment of the rollout in a state, or "refused"."""
    following, detail = None, {} if latency_ms is None else {"latency_ms": latency_ms}
    deployment = FleetDeployment(1, "COMMITTED", release="old", detail=detail)
    if state == "refused":
        following = Following(sequence, "refused", reason="The digest is another one.")
    elif state:
        following = Following(sequence, "deploying", 2)
        deployment = FleetDeployment(2, state, release="new", detail=detail, **more)
    return DeviceReport(
        presence=Presence("online" if online else "offline", 1),
        reported=Reported(1, 0.0, Status("serving", Serving(release), deployment=deployment), following),
        desired=(OLD if before else None) if not state else NEW,
        desired_sequence=(7 if before else 0) if not state else sequence,
    )


def run(known, reports, now_s=0.0):
    """Advances until nothing changes; the orders in their order."""
    orders = []
    for _ in range(20):
        found, more = advance(known, reports, now_s)
        orders += more
        if found == known:
            return known, orders
        known = found
    raise AssertionError("it does not come to rest")


def names(orders):
    return [each.device for each in orders]


IDLE = {name: report() for name in "abcdef"}


def test_the_first_wave_is_ordered_at_once_and_alone():
    known, orders = run(rollout(("a",), ("b", "c")), IDLE)
    assert orders == [deploy_order(known, "a")]
    assert (known.phase, known.wave) == ("running", 1)
    assert known.devices["a"].state == "ordered"
    assert known.devices["b"].state == "planned"


def test_a_wave_begins_when_the_one_before_is_complete():
    known, _ = run(rollout(("a",), ("b", "c")), IDLE)
    known, orders = run(known, IDLE | {"a": report("SOAKING")}, 1)
    assert (orders, known.devices["a"].stage) == ([], "SOAKING")
    known, orders = run(known, IDLE | {"a": report("COMMITTED")}, 2)
    assert names(orders) == ["b", "c"]
    known, orders = run(known, {name: report("COMMITTED") for name in "abc"}, 3)
    assert (known.phase, orders) == ("completed", [])


@pytest.mark.parametrize("state", ["ROLLED_BACK", "FAILED", "DEGRADED", "refused"])
def test_a_failed_canary_stops_the_rollout_with_its_reason(state):
    known, _ = run(rollout(("a",), ("b",)), IDLE)
    known, orders = run(
        known, IDLE | {"a": report(state, reason="agrees to 3 dB") if state != "refused" else report(state)}, 1
    )
    assert (known.phase, orders) == ("stopped", [])
    assert "1 of 1 devices failed in wave 1 of 2" in known.reason
    assert ("3 dB" if state != "refused" else "The digest is another one") in known.reason
    assert run(known, IDLE | {"a": report("COMMITTED")}, 2)[1] == []


def test_failures_within_the_limit_go_on():
    wave = tuple(f"d{k}" for k in range(10))
    known, _ = run(rollout(wave, ("z",), stop_at_failures=0.1), {name: report() for name in wave})
    reports = {name: report("COMMITTED") for name in wave} | {"d0": report("ROLLED_BACK"), "z": report()}
    known, orders = run(known, reports, 1)
    assert names(orders) == ["z"]
    reports["z"] = report("FAILED")
    assert run(known, reports, 2)[0].phase == "stopped"


def test_the_first_failure_of_a_large_wave_is_no_share_of_one():
    wave = tuple(f"d{k}" for k in range(50))
    idle = {name: report() for name in wave}
    known, _ = run(rollout(wave, stop_at_failures=0.02), idle)
    known, _ = run(known, idle | {"d0": report("refused")}, 1)
    assert known.phase == "running"
    known, _ = run(known, idle | {"d0": report("refused"), "d1": report("refused")}, 2)
    assert known.phase == "stopped"


def test_a_stop_withdraws_the_orders_of_devices_that_are_offline():
    reports = IDLE | {"b": report(online=False), "c": report(online=False, before=False)}
    known, _ = run(rollout(("a", "b", "c")), reports)
    known, orders = run(known, reports | {"a": report("ROLLED_BACK")}, 1)
    assert known.devices["b"].state == known.devices["c"].state == "withdrawn"
    assert [each.device for each in orders] == ["b", "c"]
    assert (orders[0].document.sequence, orders[0].document.desired) == (7, OLD)
    assert orders[1].document is None


def test_offline_devices_count_neither_way_and_catch_up():
    reports = IDLE | {"b": report(online=False)}
    known, orders = run(rollout(("a", "b"), ("c",)), reports)
    assert names(orders) == ["a", "b"]
    known, orders = run(known, reports | {"a": report("COMMITTED")}, 10**6)
    assert names(orders) == ["c"]
    assert counts(known).finished == 1
    reports = {"a": report("COMMITTED"), "b": report(online=False), "c": report("COMMITTED")}
    known, _ = run(known, reports, 10**6)
    assert (known.phase, known.devices["b"].state) == ("completed", "ordered")
    known, _ = run(known, reports | {"b": report("COMMITTED")}, 2 * 10**6)
    assert known.devices["b"].state == "done"


def test_a_wave_without_evidence_pauses_the_rollout():
    offline = {name: report(online=False) for name in "ab"}
    known, _ = run(rollout(("a",), ("b",), device_timeout_s=60), offline)
    known, orders = run(known, offline, 59)
    assert (known.phase, known.wave) == ("running", 1)
    known, orders = run(known, offline, 61)
    assert (known.phase, orders) == ("paused", [])
    assert "no device of wave 1" in known.reason


def test_a_device_that_vanishes_while_it_deploys_is_waited_for_and_then_failed():
    known, _ = run(rollout(("a",), ("b",), device_timeout_s=60), IDLE)
    known, _ = run(known, IDLE | {"a": report("SOAKING")}, 1)
    gone = IDLE | {"a": report("SOAKING", online=False)}
    assert run(known, gone, 60)[0].phase == "running"
    known, _ = run(known, gone, 62)
    assert known.phase == "stopped"
    assert known.devices["a"].reason == "stuck in 'soaking' for 61 s; it is offline"


def test_a_stuck_device_fails_after_its_time_and_blocks_nothing():
    known, _ = run(rollout(("a", "b"), ("c",), device_timeout_s=60, stop_at_failures=0.5), IDLE)
    reports = IDLE | {"a": report("COMMITTED"), "b": report("FETCHING")}
    known, _ = run(known, reports, 1)
    known, orders = run(known, reports, 60)
    assert orders == []
    known, orders = run(known, reports, 62)
    assert (names(orders), known.devices["b"].state) == (["c"], "stuck")
    assert known.devices["b"].reason == "stuck in 'fetching' for 61 s"
    assert run(known, reports | {"b": report("COMMITTED")}, 63)[0].devices["b"].state == "done"


def test_progress_of_a_device_begins_its_time_limit_again():
    known, _ = run(rollout(("a",), device_timeout_s=60), IDLE)
    for now_s, stage in ((50, "FETCHING"), (100, "PROBING"), (150, "SOAKING")):
        known, _ = run(known, IDLE | {"a": report(stage)}, now_s)
    assert known.devices["a"].state == "deploying"


@pytest.mark.parametrize(
    ("limits", "detail", "failed"),
    [
        ({"max_error_share": 0.01}, {"soak_errors": 3, "soak_requests": 100}, "3.0 % of its requests failed"),
        ({"max_error_share": 0.05}, {"soak_errors": 3, "soak_requests": 100}, ""),
        ({"min_agreement_db": 40.0}, {"agreement_db": 21.5}, "21.5 dB; 40 dB are required"),
        ({"min_agreement_db": 20.0}, {"agreement_db": 21.5}, ""),
        ({"min_agreement_db": 20.0}, {}, ""),
        ({"max_slowdown": 0.2}, {"latency_ms": 15.0}, "50.0 % slower"),
        ({"max_slowdown": 0.6}, {"latency_ms": 15.0}, ""),
    ],
)
def test_limits_judge_what_the_device_measured(limits, detail, failed):
    reports = {"a": report(latency_ms=10.0)}
    known, _ = run(rollout(("a",), **limits), reports)
    ended = report("COMMITTED")
    deployment = replace(ended.reported.status.deployment, detail=detail)
    ended = replace(ended, reported=replace(ended.reported, status=Status("serving", deployment=deployment)))
    device = run(known, {"a": ended}, 1)[0].devices["a"]
    assert (device.state, device.serves_new) == ("failed" if failed else "done", True)
    assert failed in device.reason


def test_a_refusal_of_an_unreadable_order_counts_once_it_is_new():
    def refusing(time_s):
        refused = Following(0, "refused", code="unsigned", reason="not signed", time_s=time_s)
        return replace(report(), reported=replace(report().reported, refused=refused))

    known, _ = run(rollout(("a",), ("b",)), {"a": refusing(5.0)})
    assert run(known, {"a": refusing(5.0)}, 1)[0].devices["a"].state == "ordered"
    assert run(known, {"a": refusing(6.0)}, 1)[0].devices["a"].reason == "refused: not signed"


def test_deployments_of_other_models_on_the_device_say_nothing():
    known = rollout(("a",))
    known = replace(known, desired=replace(NEW, model="second"))

    def told(state, other, sequence=SEQUENCE):
        first = FleetDeployment(9, other, release="x")
        second = FleetDeployment(2, state, model="second", release="new")
        old = ModelStatus("serving", "second", Serving("second-old", "second"), deployment=second)
        status = Status("serving", Serving("first"), deployment=first, models=(ModelStatus("serving"), old))
        following = Following(sequence, "deploying", 2, "second")
        return replace(report("SOAKING"), reported=Reported(1, 0.0, status, following))

    ordered, _ = run(known, {"a": replace(told("COMMITTED", "COMMITTED", 7), desired_sequence=7, desired=OLD)})
    assert ordered.devices["a"].release_before == "second-old"
    assert run(ordered, {"a": told("SOAKING", "ROLLED_BACK")}, 1)[0].devices["a"].state == "deploying"
    done, _ = run(ordered, {"a": told("COMMITTED", "ROLLED_BACK")}, 1)
    assert done.devices["a"].state == "done"
    _, orders = run(control(done, Control("rollback", 2000, 2.0)), {"a": told("COMMITTED", "ROLLED_BACK")}, 2)
    assert (orders[0].document, orders[0].command.model, orders[0].command.to) == (None, "second", "second-old")


def test_rollback_removes_an_added_model_once_its_deployment_has_ended():
    known = replace(rollout(("a",)), desired=replace(NEW, model="second", add=True))
    first = ModelStatus("serving", "first", Serving("x", "first"))

    def told(state):
        last = FleetDeployment(1, state, model="second", release="new")
        status = Status(
            "serving", Serving("x"), models=(first, ModelStatus("deploying", "second", deployment=last))
        )
        return replace(
            report("SOAKING"), reported=Reported(1, 0.0, status, Following(SEQUENCE, "deploying", 1, "second"))
        )

    alone = replace(
        report(before=False), reported=Reported(1, 0.0, Status("serving", Serving("x"), models=(first,)))
    )
    known, _ = run(known, {"a": alone})
    assert known.devices["a"].release_before == ""
    known, _ = run(known, {"a": told("SOAKING")}, 1)
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), {"a": told("SOAKING")}, 2)
    assert (orders, known.phase) == ([], "rolling-back")
    known, orders = run(known, {"a": told("COMMITTED")}, 3)
    assert [(each.command.command, each.command.model) for each in orders] == [("remove", "second")]
    known, orders = run(known, {"a": alone}, 4)
    assert (orders, known.devices["a"].state, known.phase) == ([], "rolled-back", "rolled-back")


def test_the_newest_rollout_wins():
    known, _ = run(rollout(("a", "f"), ("b",), ("c",)), IDLE)
    reports = IDLE | {"a": report("SOAKING", sequence=SEQUENCE + 1), "f": report("COMMITTED")}
    reports["b"] = replace(report(), claimed_by="newer")
    known, orders = run(known, reports, 1)
    assert known.devices["a"].state == known.devices["b"].state == "superseded"
    assert names(orders) == ["c"]


def test_what_a_person_took_back_on_a_device_is_no_failure():
    known, _ = run(rollout(("a",), ("b",)), IDLE)
    known, _ = run(known, IDLE | {"a": report("ROLLED_BACK", requested=True)}, 1)
    assert (known.phase, known.devices["a"].state) == ("running", "superseded")


def test_pause_resume_and_cancel():
    known, _ = run(rollout(("a",), ("b",)), IDLE)
    paused = control(known, Control("pause", 5, 1.0))
    done = IDLE | {"a": report("COMMITTED")}
    waiting, orders = run(paused, done, 2)
    assert (waiting.phase, orders) == ("paused", [])
    assert control(waiting, Control("resume", 5, 3.0)) == waiting
    resumed, orders = run(control(waiting, Control("resume", 6, 3.0)), done, 4)
    assert names(orders) == ["b"]
    cancelled, orders = run(control(resumed, Control("cancel", 7, 5.0)), done, 5)
    assert (cancelled.phase, names(orders), cancelled.devices["b"].state) == ("cancelled", ["b"], "withdrawn")


def test_rollback_orders_what_was_desired_before():
    reports = IDLE | {"c": report(before=False), "d": report(online=False)}
    known, _ = run(rollout(("a", "b", "c", "d", "e"), stop_at_failures=1.0), reports)
    took = {"a": report("COMMITTED"), "b": report("ROLLED_BACK"), "c": report("COMMITTED"), "e": report("SOAKING")}
    known, _ = run(known, reports | took, 1)
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), reports | took, 2)
    found = {each.device: each for each in orders}
    assert sorted(found) == ["a", "c", "d", "e"]
    assert (found["a"].document.sequence, found["a"].document.desired.digest) == (2000, OLD.digest)
    assert found["a"].document.desired.allow_downgrade
    assert (found["c"].command.command, found["c"].command.to) == ("rollback", "old")
    assert found["d"].document.sequence == 7
    back = {each: report("COMMITTED", sequence=2000) for each in "ae"} | {"c": report(), "b": took["b"]}
    known, orders = run(known, reports | back, 3)
    states = {name: each.state for name, each in known.devices.items()}
    assert states == {"a": "rolled-back", "b": "failed", "c": "rolled-back", "d": "withdrawn", "e": "rolled-back"}
    assert (known.phase, orders) == ("rolled-back", [])


@pytest.mark.parametrize("state", ["failed", "refused"])
def test_rollback_does_not_order_a_desired_state_that_had_failed(state):
    idle = report()
    failed = replace(idle.reported, desired=Following(7, state, 1, reason="The model has another name."))
    reports = {"a": replace(idle, reported=failed), "b": replace(idle, reported=failed, presence=None)}
    known, _ = run(rollout(("a", "b")), reports)
    took = {"a": report("COMMITTED", release="new")}
    known, _ = run(known, reports | took, 1)
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), reports | took, 2)
    found = {each.device: each for each in orders}
    assert (found["a"].command.command, found["a"].command.to) == ("rollback", "old")
    assert (found["b"].document, found["b"].command) == (None, None)  # its order is withdrawn


@pytest.mark.parametrize(("last", "way"), [(2, "document"), (3, "command")])
def test_rollback_returns_to_a_release_that_was_deployed_after_the_desired_state(last, way):
    status = Status("serving", Serving("old"), deployment=FleetDeployment(last, "COMMITTED", release="old"))
    reports = {"a": replace(report(), reported=Reported(1, 0.0, status, Following(7, "done", 2)))}
    known, _ = run(rollout(("a",)), reports)
    took = {"a": report("COMMITTED", release="new")}
    known, _ = run(known, took, 1)
    _, (order,) = run(control(known, Control("rollback", 2000, 2.0)), took, 2)
    assert (order.command is None, order.document is None) == (way == "document", way == "command")
    assert order.command is None or (order.command.command, order.command.to) == ("rollback", "old")


def by_command(answer, state="COMMITTED", release="new"):
    """A rollback of a device that had no desired state, after this answer and report."""
    took = {"a": report("COMMITTED", release="new")}
    known, _ = run(rollout(("a",)), {"a": report(before=False)})
    known, _ = run(known, took, 1)
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), took, 2)
    assert orders[0].command.to == "old"
    last = FleetDeployment(3, state, "rollback", release="old", reason="The worker crashed.")
    found = Reported(1, 0.0, Status("serving", Serving(release), deployment=last), took["a"].reported.desired)
    known, _ = run(known, {"a": replace(took["a"], reported=found, answer=answer)}, 3)
    return known


ACCEPTED = CommandAnswer(202, {"deployment": {"id": 3}})


def test_a_return_by_command_ends_as_the_device_answers_and_reports():
    refused = by_command(CommandAnswer(403, {"error": {"message": "It is not trusted."}}))
    assert (refused.phase, refused.reason) == (
        "rollback-failed", "rolled back 0 of 1 device; a: refused: It is not trusted",
    )  # fmt: skip
    failed = by_command(ACCEPTED, "FAILED")
    assert failed.reason == "rolled back 0 of 1 device; a: failed: The worker crashed"
    assert by_command(ACCEPTED, "PROBING").phase == by_command(None, "FAILED").phase == "rolling-back"
    assert by_command(ACCEPTED, release="old").phase == "rolled-back"


def test_a_device_that_is_offline_misses_the_command_to_return():
    reports = {"a": report(before=False), "b": report()}
    known, _ = run(rollout(("a", "b")), reports)
    took = {"a": report("COMMITTED", online=False), "b": report("COMMITTED")}
    known, _ = run(known, took, 1)
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), took, 2)
    known, _ = run(known, took | {"b": report("COMMITTED", sequence=2000)}, 3)
    assert (known.phase, names(orders)) == ("rollback-failed", ["b"])
    assert known.reason == "rolled back 1 of 2 devices; a: it is offline, and the command needs it online"


def test_rollback_leaves_devices_that_follow_something_newer():
    known, _ = run(rollout(("a",)), IDLE)
    known, _ = run(known, {"a": report("COMMITTED")}, 1)
    newer = {"a": report("COMMITTED", sequence=1500)}
    known, orders = run(control(known, Control("rollback", 2000, 2.0)), newer, 2)
    assert (orders, known.devices["a"].state, known.phase) == ([], "superseded", "rolled-back")
    assert known.reason == "1 device follows a newer desired state and was not changed"


def test_orders_lost_by_a_kill_are_found():
    known, orders = run(rollout(("a", "b"), ("c",)), IDLE)
    assert missing_orders(known, IDLE) == tuple(orders)
    arrived = IDLE | {"a": replace(report(), desired=NEW, desired_sequence=SEQUENCE)}
    assert names(missing_orders(known, arrived)) == ["b"]


def test_two_clients_come_to_the_same_state():
    known, _ = run(rollout(("a", "f"), ("b",), stop_at_failures=0.5), IDLE)
    one, _ = run(known, IDLE | {"a": report("COMMITTED")}, 1)
    other, _ = run(control(known, Control("pause", 9, 1.0)), IDLE | {"f": report("ROLLED_BACK")}, 1)
    found = [merged(one, other), merged(other, one)]
    for each in found:
        assert (each.phase, each.devices["a"].state, each.devices["f"].state) == ("paused", "done", "failed")
    assert merged(*found) == found[1]


_STATES = st.sampled_from(
    ["", "FETCHING", "SOAKING", "COMMITTED", "COMMITTED", "ROLLED_BACK", "FAILED", "refused", "newer"]
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_reports_order_each_device_once_and_end(data):
    size = data.draw(st.integers(1, 6))
    all_ = "abcdef"[:size]
    cut = data.draw(st.integers(1, size))
    waves = tuple(wave for wave in (tuple(all_[:cut]), tuple(all_[cut:])) if wave)
    known = rollout(*waves, stop_at_failures=data.draw(st.sampled_from([0.0, 0.3, 1.0])), device_timeout_s=10)
    reports = {name: report() for name in all_}
    deployed, stopped_at, now_s = [], None, 0.0
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(all_))
        state, online = data.draw(_STATES), data.draw(st.booleans())
        sequence = SEQUENCE + 1 if state == "newer" else SEQUENCE
        reports[name] = report("SOAKING" if state == "newer" else state, online, sequence)
        now_s += data.draw(st.floats(0, 8))
        known, orders = run(known, reports, now_s)
        deployed += [each.device for each in orders if each.document and each.document.sequence == SEQUENCE]
        if stopped_at is not None:
            assert known.wave == stopped_at
        if known.phase in {"stopped", "completed", "paused"}:
            stopped_at = known.wave
    assert len(deployed) == len(set(deployed))
    for _ in range(5):
        now_s += 11
        known, _ = run(known, reports, now_s)
    assert known.phase != "running"


def test_a_rollback_that_failed_on_a_device_is_tried_again_there():
    reports = {"a": report(before=False), "b": report()}
    known, _ = run(rollout(("a", "b")), reports)
    away = {"a": report("COMMITTED", online=False), "b": report("COMMITTED")}
    known, _ = run(known, away, 1)
    back = {"b": report("COMMITTED", sequence=2000)}
    known, _ = run(control(known, Control("rollback", 2000, 2.0)), away, 2)
    known, _ = run(known, away | back, 3)
    assert known.phase == "rollback-failed"
    online = {"a": report("COMMITTED", release="new")} | back
    known, orders = run(control(known, Control("rollback", 3000, 4.0)), online, 4)
    assert (known.phase, names(orders)) == ("rolling-back", ["a"])
    known, orders = run(known, {"a": report(before=False)} | back, 5)
    assert (known.phase, known.reason, orders) == ("rolled-back", "", [])


def test_a_device_that_went_back_meanwhile_is_not_done_in_a_rollout_that_goes_on():
    """A broker that was killed may have forgotten that the rollout was rolled back."""
    known, _ = run(rollout(("a",), ("b",)), IDLE)
    known, _ = run(known, IDLE | {"a": report("COMMITTED")}, 1)
    assert known.devices["a"].state == "done"
    following = Following(SEQUENCE, "done", 2)
    back = FleetDeployment(3, "COMMITTED", "rollback", release="old")
    returned = replace(
        report("COMMITTED"),
        reported=Reported(1, 0.0, Status("serving", Serving("old"), deployment=back), following),
    )
    known, _ = run(known, IDLE | {"a": returned}, 2)
    assert (known.devices["a"].state, known.devices["a"].reason) == ("superseded", "deployment 3 came after it")
    assert not known.devices["a"].serves_new
