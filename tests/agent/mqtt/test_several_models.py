"""One order of several models over MQTT, from the client to a real agent and back."""

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt.errors import UsageError, VerificationError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import (
    DevicesRequest,
    RolloutControlRequest,
    RolloutStartRequest,
    RolloutStatusRequest,
)


@pytest.fixture
def served(serve_bundle, old_bundle, new_bundle, null_bundle):
    """Web servers with the bundles, each with its digest."""
    bundles = {"old": old_bundle, "new": new_bundle, "other": null_bundle("other"), "third": null_bundle("third")}
    return {name: serve_bundle(bundle) for name, bundle in bundles.items()}


@pytest.fixture
def pair(start_device, client, served, null_bundle):
    """A device that serves the models `null` and `other`."""
    agent = start_device(fetch_from=[server.prefix for server, _ in served.values()], deployed=True)
    assert agent.deploy(null_bundle("other"), add=1)["state"] == "COMMITTED"
    client.presence("online")
    return agent


@pytest.fixture
def begin(broker, topics, served):
    def start(name, third=None, **more):
        server, digest = served["new"]
        added, added_digest = third or served["third"]
        request = RolloutStartRequest(
            broker=broker.url, bundle=server.url, digest=digest, to=topics.device, soak_requests=1, name=name,
            **{"model": "null", "also": (f"third={added.url}@{added_digest}",), "remove": ("other",),
               "soak_seconds": 0.1, "device_timeout": 30.0, **more},
        )  # fmt: skip
        return commands.start(request, name, lambda _: None)

    return start


def names(agent):
    return [each["name"] for each in agent.status()["models"]]


def test_a_rollout_of_three_models_commits_and_returns(pair, client, begin, broker, old_bundle, new_bundle):
    done = begin("three")
    assert done.counts == {"done": 1}
    assert done.devices[0].models == {"null": "COMMITTED", "third": "COMMITTED", "other": "COMMITTED"}
    assert names(pair) == ["null", "third"]
    assert pair.status()["serving"]["release"] == release_id(new_bundle)
    found = commands.devices(DevicesRequest(broker=broker.url, to=client.topics.device)).devices[0]
    assert found.desired == "done"
    assert found.models == done.devices[0].models
    request = RolloutControlRequest(broker=broker.url, name="three")
    assert commands.go_on(request, "rollback", lambda _: None).counts == {"rolled-back": 1}
    # The end of a deployment is reported before its files are tidied up.
    both = {"null": "serving", "other": "serving"}

    def states():
        return {each["name"]: each["state"] for each in pair.status()["models"] if each["name"] != "third"}

    pair.until(lambda: states() == both, "both models")
    assert pair.status()["serving"]["release"] == release_id(old_bundle)


def test_a_rollout_with_one_bad_model_names_it_and_changes_nothing(
    pair, begin, broker, serve_bundle, null_bundle, served, old_bundle
):
    with pytest.raises(VerificationError, match="nothing was changed: 'third': The file at"):
        begin("bad", third=(served["third"][0], "sha256:" + "0" * 64))
    device = commands.status(RolloutStatusRequest(broker=broker.url, name="bad")).devices[0]
    assert (device.state, device.models["third"]) == ("failed", "FAILED")
    assert pair.status()["serving"]["release"] == release_id(old_bundle)
    assert {each["name"] for each in pair.status()["models"] if each["serving"]} == {"null", "other"}


def test_one_bundle_ends_an_order_of_several_that_names_its_model(pair, client, served, begin, broker):
    server, digest = served["new"]
    third, third_digest = served["third"]
    several = [
        {"model": "null", "bundle": server.url, "digest": digest},
        {"model": "third", "bundle": third.url, "digest": third_digest},
    ]
    client.desire(1, "", "", models=several, soak_s=600.0)
    client.reported(
        lambda each: each["desired"] and {m["state"] for m in each["desired"]["models"]} == {"SOAKING"}
    )
    client.desire(2, *(served["old"][0].url, served["old"][1]))
    client.reported(lambda each: each["desired"]["sequence"] == 2 and each["desired"]["state"] == "done")
    order = pair.status()["order"]
    assert order["state"] == "ROLLED_BACK"
    assert "A newer request took its place." in order["reason"]


BAD = {
    "no name": ({"model": ""}, "each model needs its name"),
    "--add": ({"add": True}, "--add does not apply"),
    "no digest": ({"also": ("third=https://host/x.edgeopt",)}, "is not a model with its bundle and digest"),
    "twice": ({"remove": ("null",)}, "The model 'null' is named twice"),
    "a limit of one model": ({"max_slowdown": "20%"}, "--max-slowdown compares one model"),
}


@pytest.mark.parametrize("bad", BAD)
def test_options_that_cannot_be_meant_are_refused(begin, bad):
    options, said = BAD[bad]
    with pytest.raises(UsageError, match=said):
        begin("never", **options)


def test_command_takes_an_order_back_also_after_a_restart(pair, start_agent, client, broker, old_bundle):
    client.desire(1, "", "", models=[{"model": "null", "remove": True}])
    report = client.reported(lambda each: each["desired"] and each["desired"]["state"] == "done")
    assert report["desired"]["models"][0]["state"] == "COMMITTED"
    pair.until(lambda: pair.status()["state"] == "empty", "the end of the removal")
    pair.stop()
    again = start_agent(pair.data_dir, mqtt={"url": broker.url, "device": client.topics.device})
    client.presence("online", report["session"])
    again.until(lambda: again.status()["state"] == "empty", "the start without it")
    number = report["desired"]["order"]
    answer = client.ask("deploy", {"command": "rollback", "order": number})
    assert answer["status"] == 202
    assert answer["answer"]["order"]["returns"] == number
    assert again.settled()["serving"]["release"] == release_id(old_bundle)
    assert client.ask("deploy", {"command": "rollback", "order": 9})["answer"]["error"]["code"] == "no-order"


@pytest.mark.parametrize("state", ["FETCHING", "READY"])
def test_order_that_a_crash_ends_before_the_switch_is_followed_again(
    start_device, client, served, state, new_bundle
):
    prefixes = [server.prefix for server, _ in served.values()]
    doomed = start_device(fetch_from=prefixes, deployed=True, kill={"state": state, "when": "after"})
    client.presence("online")
    models = [
        {"model": name, "bundle": served[place][0].url, "digest": served[place][1]}
        for name, place in (("null", "new"), ("third", "third"))
    ]
    client.desire(1, "", "", models=models)
    assert doomed.process.wait(60) == -9
    agent = start_device(fetch_from=prefixes)
    report = client.reported(lambda each: each["desired"] and each["desired"]["state"] == "done")
    assert [each["state"] for each in report["desired"]["models"]] == ["COMMITTED"] * 2
    told = [each["desired"] for each in client.of(client.topics.reported)]
    assert "failed" not in {each["state"] for each in told if each}
    assert agent.status()["serving"]["release"] == release_id(new_bundle)
