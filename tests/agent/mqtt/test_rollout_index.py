"""A rollout of an index in a real registry: one order, of which each device takes its own bundle."""

from edgeopt.bundle.manifest import release_id
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import RolloutStartRequest
from edgeopt.registry.push import push
from edgeopt.registry.request import PushRequest
from tests import registry_server
from tests.registry import conftest as registries

docker_registry, registry = registry_server.docker_registry, registry_server.registry
here, elsewhere, make_bundles = registries.here, registries.elsewhere, registries.make_bundles


def test_rollout_of_an_index_deploys_the_bundle_of_the_device(
    start_device, client, broker, registry, make_bundles
):
    own, other = make_bundles()
    place = f"oci://{registry.host}/models/rollout:v1"
    push(PushRequest((other, own), place), lambda _event: None)
    agent = start_device(fetch_from=[f"oci://{registry.host}/models/"])
    client.presence("online")
    request = RolloutStartRequest(
        broker=broker.url, bundle=place, to=client.topics.device, soak_seconds=0.1, soak_requests=1
    )
    assert commands.start(request, "index", lambda _event: None).counts == {"done": 1}
    agent.serves(own)
    assert agent.status()["serving"]["release"] == release_id(own)
