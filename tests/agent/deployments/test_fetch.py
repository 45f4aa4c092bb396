"""Bundles that the agent fetches itself, from a real server that breaks off, lies or falls silent."""

import random
from pathlib import Path

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.fleet.client import Agent
from edgeopt_agent import trusted_keys
from edgeopt_agent.deployments.fetch import retry_delay_s
from edgeopt_agent.settings import Settings
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import RETRIES, begin, digest_of, end, partial_files, received, states, want


def test_bundle_is_fetched_proved_and_served(start_fetching, file_server, long_bundle):
    agent = start_fetching()
    done = end(agent, file_server)
    assert done["state"] == "COMMITTED", done["reason"]
    assert states(done) == [
        *("ACCEPTED", "FETCHING", "VERIFYING", "STAGED", "PROBING", "SWITCHING", "SOAKING", "COMMITTED")
    ]
    agent.serves(long_bundle)
    assert file_server.requests == [("/bundles/model.edgeopt", None)]
    assert partial_files(agent) == []


def test_fetched_release_is_not_fetched_again(start_fetching, file_server):
    agent = start_fetching()
    first = end(agent, file_server)
    assert end(agent, file_server)["id"] == first["id"]
    assert len(file_server.requests) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_download_goes_on(start_fetching, file_server, long_bundle, ranges):
    agent = start_fetching()
    file_server.ranges = ranges
    cuts = random.Random(7)  # noqa: S311 - no secret
    file_server.plans = [{"cut": cuts.randrange(1, len(file_server.content) // 8)} for _ in range(7)]
    done = end(agent, file_server)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(long_bundle)
    assert len(file_server.requests) == 8
    if ranges:
        assert sum(file_server.sent) == len(file_server.content)
    assert all(asked for _, asked in file_server.requests[1:])


def test_delay_doubles_to_its_limit_and_differs_between_devices():
    settings = Settings(data_dir=Path(), fetch_retry_s=1.0, fetch_retry_most_s=60.0)
    for failures, max_s in ((1, 1), (2, 2), (6, 32), (7, 60), (10_000, 60)):
        found = {retry_delay_s(settings, failures) for _ in range(100)}
        assert max_s / 2 <= min(found) <= max(found) <= max_s
        assert len(found) > 50


def test_server_errors_are_tried_again(start_fetching, file_server):
    agent = start_fetching()
    file_server.plans = [{"status": 500}, {"cut": 1000}, {"status": 503}, {"cut": 1000}, {"status": 429}]
    assert end(agent, file_server)["state"] == "COMMITTED"
    assert sum(file_server.sent) == len(file_server.content)


@pytest.mark.parametrize("etag", [True, False])
def test_file_that_changes_in_the_middle_is_fetched_from_its_begin(start_fetching, file_server, long_bundle, etag):
    agent = start_fetching()
    file_server.etag = etag
    right = file_server.content
    file_server.content = bytes(len(right))

    def change():
        file_server.content = right

    file_server.plans = [{"cut": 100_000, "then": change}]
    status, _, answer = want(agent, file_server.url, digest_of(right))
    assert status == 202
    done = agent.ended(answer["deployment"]["id"])
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(long_bundle)
    assert len(file_server.requests) == (2 if etag else 3)


def test_wrong_digest_is_never_proved(start_fetching, file_server, old_bundle):
    agent = start_fetching()
    _, _, answer = want(agent, file_server.url, digest_of(b"another"))
    done = agent.ended(answer["deployment"]["id"])
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert digest_of(file_server.content) in done["reason"]
    assert len(file_server.requests) == 1
    assert partial_files(agent) == []
    agent.serves(old_bundle)


@pytest.mark.parametrize(
    ("plan", "requests"),
    [({}, 1), ({"announce": -1}, 1), ({"chunked": True}, 1)],
    ids=["announced", "until-the-end", "chunked"],
)
def test_too_large_bundle_is_refused(start_fetching, file_server, old_bundle, plan, requests):
    agent = start_fetching(max_bundle_bytes=100_000)
    file_server.plans = [plan]
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "at most 100000 are taken" in done["reason"]
    assert len(file_server.requests) == requests
    assert partial_files(agent) == []
    agent.serves(old_bundle)


@pytest.mark.parametrize("plan", [{"announce": -1}, {"chunked": True}])
def test_bundle_of_unknown_size_is_fetched(start_fetching, file_server, long_bundle, plan):
    agent = start_fetching()
    file_server.plans = [plan]
    assert end(agent, file_server)["state"] == "COMMITTED"
    agent.serves(long_bundle)


def test_no_room_ends_the_download_before_it_begins(start_fetching, file_server):
    agent = start_fetching(disk_reserve_bytes=1 << 60)
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "is too full" in done["reason"]
    assert partial_files(agent) == []


def test_length_that_is_a_lie_ends_with_the_download(start_fetching, file_server, old_bundle):
    agent = start_fetching(fetch_timeout_s=30.0)
    file_server.plans = [{"announce": len(file_server.content) + 1000}] * 100
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"], done["reason"]
    agent.serves(old_bundle)


def test_server_that_sends_another_part_is_asked_from_the_begin(start_fetching, file_server, long_bundle):
    agent = start_fetching()
    file_server.plans = [{"cut": 1000}, {"shift": 7}]
    assert end(agent, file_server)["state"] == "COMMITTED"
    agent.serves(long_bundle)
    assert file_server.requests[2][1] is None


def test_missing_file_fails_at_once(start_fetching, file_server, old_bundle):
    agent = start_fetching()
    file_server.plans = [{"status": 404}]
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "404" in done["reason"]
    assert len(file_server.requests) == 1
    agent.serves(old_bundle)


def test_silent_server_ends_at_the_time_limit(start_fetching, file_server, old_bundle):
    agent = start_fetching(fetch_timeout_s=1.0)
    file_server.plans = [{"hold": 150_000}]
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "limit of 1 s" in done["reason"]
    agent.serves(old_bundle)


def test_request_after_a_failed_download_asks_for_the_rest(start_fetching, file_server, long_bundle):
    agent = start_fetching()
    file_server.plans = [{"cut": 150_000}, {"status": 404}]
    assert end(agent, file_server)["state"] == "FAILED"
    assert len(partial_files(agent)) == 1
    assert end(agent, file_server)["state"] == "COMMITTED"
    agent.serves(long_bundle)
    assert sum(file_server.sent) == len(file_server.content)
    assert partial_files(agent) == []


def test_left_part_is_removed_at_the_next_start(start_fetching, start_agent, file_server):
    agent = start_fetching()
    file_server.plans = [{"cut": 150_000}, {"status": 404}]
    assert end(agent, file_server)["state"] == "FAILED"
    agent.stop()
    again = start_agent(agent.data_dir)
    again.settled()
    assert partial_files(again) == []


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_restarted_agent_goes_on_with_its_download(
    start_fetching, start_agent, file_server, long_bundle, old_bundle, how
):
    agent = start_fetching()
    file_server.plans = [{"hold": 250_000}]
    number = begin(agent, file_server)
    received(agent, 250_000)
    if how == "kill":
        agent.process.kill()
        agent.process.wait()
    else:
        agent.stop()
    file_server.plans = [{"hold": 0}]
    again = start_agent(agent.data_dir, fetch_from=[file_server.prefix], **RETRIES)
    again.until(lambda: again.status()["serving"], "the old release, which serves meanwhile")
    again.until(lambda: len(file_server.requests) == 2, "the second request")
    offset = int(file_server.requests[1][1].removeprefix("bytes=").removesuffix("-"))
    assert 200_000 <= offset <= 250_000
    assert again.status()["serving"]["release"] == release_id(old_bundle)
    again.process.kill()
    again.process.wait()
    third = start_agent(agent.data_dir, fetch_from=[file_server.prefix], **RETRIES)
    done = third.ended(number)
    assert done["state"] == "COMMITTED", done["reason"]
    third.serves(long_bundle)
    assert file_server.sent[-1] == len(file_server.content) - offset


def test_setting_that_changed_while_it_was_down_ends_the_download(start_fetching, start_agent, file_server):
    agent = start_fetching()
    file_server.plans = [{"hold": 250_000}]
    number = begin(agent, file_server)
    received(agent, 250_000)
    agent.stop()
    again = start_agent(agent.data_dir)
    done = again.ended(number)
    assert done["state"] == "FAILED"
    assert "fetch_from" in done["reason"]
    assert len(file_server.requests) == 1


def test_newest_request_wins(start_fetching, make_file_server, file_server, long_bundle, make_null_bundle):
    other = make_file_server(packed(make_null_bundle(model={"noise": 0.5})))
    agent = start_fetching(fetch_from=[file_server.prefix, other.prefix])
    other.plans = [{"hold": 100}]
    first = begin(agent, other)
    received(agent, 100)
    again = begin(agent, other)
    assert again == first
    second = begin(agent, file_server)
    done = agent.ended(second)
    assert done["state"] == "COMMITTED", done["reason"]
    ended = agent.ended(first)
    assert (ended["state"], ended["reason"]) == ("FAILED", "A newer request took its place.")
    agent.serves(long_bundle)


def test_newest_request_ends_the_soak_of_the_one_before(
    start_fetching, make_file_server, file_server, long_bundle, make_null_bundle
):
    other = make_file_server(packed(make_null_bundle(model={"noise": 0.5})))
    agent = start_fetching(fetch_from=[file_server.prefix, other.prefix])
    first = begin(agent, other, soak_s=3600)
    agent.until(lambda: agent.status()["deployment"]["state"] == "SOAKING", "the soak")
    assert end(agent, file_server)["state"] == "COMMITTED"
    assert agent.ended(first)["state"] == "ROLLED_BACK"
    agent.serves(long_bundle)


def test_bundle_that_is_sent_ends_a_download(start_fetching, file_server, old_bundle, make_null_bundle):
    agent = start_fetching()
    file_server.plans = [{"hold": 100}]
    first = begin(agent, file_server)
    received(agent, 100)
    sent = make_null_bundle(model={"noise": 0.5})
    assert agent.deploy(sent)["state"] == "COMMITTED"
    assert agent.ended(first)["state"] == "FAILED"
    agent.serves(sent)
    assert partial_files(agent) == []


@pytest.mark.parametrize("way", ["cancel", "rollback"])
def test_download_can_be_cancelled_and_rolled_back_over(start_fetching, file_server, old_bundle, new_bundle, way):
    agent = start_fetching()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    file_server.plans = [{"hold": 100}]
    first = begin(agent, file_server)
    received(agent, 100)
    status, _, answer = agent.ask("POST", f"/api/v1/{way}")
    assert status == 202
    agent.ended(answer["deployment"]["id"])
    assert agent.ended(first)["state"] == "FAILED"
    agent.serves(old_bundle if way == "rollback" else new_bundle)


def test_worker_that_crashes_during_a_download_is_started_again(start_fetching, file_server, old_bundle):
    agent = start_fetching()
    file_server.plans = [{"hold": 100}]
    begin(agent, file_server)
    received(agent, 100)
    pid = agent.status()["serving"]["pid"]
    next(worker for worker in agent.workers() if worker.pid == pid).kill()
    served = agent.until(
        lambda: (s := agent.status()["serving"]) and s["pid"] != pid and s, "the worker that follows"
    )
    assert served["release"] == release_id(old_bundle)
    assert agent.status()["deployment"]["state"] == "FETCHING"


def test_release_that_keeps_crashing_during_a_download_is_rolled_back(
    start_fetching, file_server, old_bundle, new_bundle
):
    agent = start_fetching(crash_window_s=3600.0, crashes_allowed=2)
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    file_server.plans = [{"hold": 100}]
    first = begin(agent, file_server)
    received(agent, 100)
    killed = set()

    def goes_back():
        serving = agent.status()["serving"]
        if serving and serving["release"] == release_id(old_bundle):
            return True
        # The worker that the status names may be gone by now.
        for worker in agent.workers():
            if serving and worker.pid == serving["pid"] and worker.pid not in killed:
                killed.add(worker.pid)
                worker.kill()
        return False

    agent.until(goes_back, "the release before")
    assert agent.ended(first)["state"] == "FAILED"


def test_fetched_bundle_needs_a_trusted_signature(
    start_fetching, make_file_server, file_server, long_bundle, tmp_path
):
    new_key(tmp_path / "key")
    agent = start_fetching()
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "VERIFYING", "FAILED"]
    sign_bundle(long_bundle, tmp_path / "key", 5)
    file_server.content = packed(long_bundle)
    done = end(agent, file_server)
    assert (done["state"], done["detail"]["sequence"]) == ("COMMITTED", 5)


def test_client_follows_a_download(start_fetching, file_server, long_bundle):
    agent = start_fetching()
    file_server.plans = [{"cut": 1000}, {"cut": 1000}]
    told = []
    done = Agent(f"127.0.0.1:{agent.port}").deploy_from(
        file_server.url, digest_of(file_server.content).removeprefix("sha256:"), told.append
    )
    assert done.state == "COMMITTED"
    assert "fetching" in [event.phase for event in told]


def test_added_model_is_fetched_by_its_name(start_fetching, make_file_server, file_server, null_bundle):
    other = make_file_server(packed(null_bundle(name="second")))
    agent = start_fetching(fetch_from=[other.prefix])
    assert want(agent, other.url, digest_of(other.content), add=True)[2]["error"]["code"] == "no-name"
    for name, state in (("third", "FAILED"), ("second", "COMMITTED")):
        status, _, answer = want(agent, other.url, digest_of(other.content), add=True, model=name)
        assert status == 202
        done = agent.ended(answer["deployment"]["id"], name)
        assert done["state"] == state, done["reason"]
