"""100,000 damaged requests and messages to an agent: HTTP routes, gRPC, MQTT and the protocol of measurements.

Sound requests of each kind are changed in one to four places. The agent must not crash, must answer each within
its limit, must hold no more memory afterwards, and must serve the same release as before.

    python benchmarks/agent_fuzz.py
    python benchmarks/agent_fuzz.py --seed 4 --count 5000
"""

import argparse
import http.client
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import tritonclient.grpc.service_pb2 as messages

sys.path.insert(0, str(Path(__file__).parents[1]))  # the broker and the changes are those of the tests

from benchmarks.fleet_day import WIDTH, Device, Release, build_release, until
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.fleet.mqtt_documents import DesiredBundle, DesiredState, desired_message
from edgeopt.hw.load import process_memory_bytes
from edgeopt_agent.http.table import ROUTES
from tests.agent.test_mutated_requests import mutated, request
from tests.broker import Broker, Client, Topics, free_port

MODEL = "alpha"
LIMIT_S = 35.0
"""The agent waits for the rest of a body for 30 s by default."""
SHARES = {"http": 0.6, "grpc": 0.25, "mqtt": 0.14, "measurements": 0.01}
_SOON_S = 0.02
SERVICE = "/inference.GRPCInferenceService/"
MAX_MORE_MIB = 64
METHODS = ("ModelInfer", "ModelMetadata", "ModelReady", "ServerLive", "ServerMetadata", "RepositoryIndex")
STEPS = (
    {"do": "hello"},
    {"do": "need", "files": {"model.onnx": ["0" * 64, 10]}},
    {"do": "file", "digest": "0" * 64, "bytes": 10},
    {"do": "run", "arguments": ["bench", "model.onnx", "--json"]},
    {"do": "end"},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        release = build_release(folder, MODEL, 1)
        broker = Broker(folder)
        port = free_port()
        more = f"grpc_port = {port}\ntrials = true\nqueue_length = 64\n"
        device = Device("camera-1", folder, broker, "http://127.0.0.1:9/", more)
        try:
            device.listening()
            wrong = _fuzz(device, port, broker, folder, release, given.seed, given.count)
        finally:
            device.stop()
            broker.stop()
        log = (folder / "camera-1.log").read_text()
        if "Traceback" in log:
            wrong.append(f"the log has a traceback: …{log[log.index('Traceback') :][:2000]}")
    print(f"wrong: {len(wrong)}", *wrong, sep="\n  ")
    raise SystemExit(1 if wrong else 0)


def _fuzz(
    device: Device, port: int, broker: Broker, folder: Path, release: Release, seed: int, count: int
) -> list[str]:
    chance = random.Random(seed)  # noqa: S311 - the same each time
    bundle = (folder / release.file).read_bytes()
    options = DeployOptions(soak_s=0, soak_requests=0)
    Agent(device.url).deploy(folder / release.file, lambda _: None, options)
    pid, before = device.pid, process_memory_bytes(device.pid) or 0
    client = Client(broker, Topics("default", device.name))
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    senders: dict[str, Callable[[], str]] = {
        "http": _http_sender(device, bundle, chance),
        "grpc": _grpc_sender(channel, port, chance),
        "mqtt": _mqtt_sender(client, chance),
        "measurements": _measurement_sender(device, chance),
    }
    wrong: list[str] = []
    for kind, send in senders.items():
        answers: Counter[str] = Counter()
        slowest_s, began = 0.0, time.monotonic()
        for _ in range(int(count * SHARES[kind])):
            started = time.monotonic()
            answers[send()] += 1
            slowest_s = max(slowest_s, time.monotonic() - started)
        total = sum(answers.values())
        print(f"{kind}: {total} in {time.monotonic() - began:.0f} s, slowest {slowest_s:.2f} s: {dict(answers)}")
        wrong += [f"{kind}: {answer}" for answer in answers if answer in {"500", "502", "UNKNOWN", "no HTTP"}]
        if slowest_s > LIMIT_S:
            wrong.append(f"{kind}: an answer took {slowest_s:.1f} s")
    client.close()
    channel.close()
    if not device.running or device.pid != pid:
        return [*wrong, "the agent ended"]
    if not until(lambda: device.answer(MODEL) == release.scale, 60.0):
        wrong.append(f"the release does not answer any more: {device.status()}")
    after = process_memory_bytes(device.pid) or 0
    print(f"memory of the agent: {before >> 20} -> {after >> 20} MiB")
    if after - before > MAX_MORE_MIB << 20:
        wrong.append("the agent holds more memory")
    return wrong


def _http_sender(device: Device, bundle: bytes, chance: random.Random) -> Callable[[], str]:
    sound = _sound_requests(bundle)

    def send() -> str:
        method, path, body, headers = chance.choice(sound)
        if body and chance.random() < 0.5:  # HTTP as it should be, with another body
            return _http(device.port, request(method, path, mutated(chance, body), **headers))
        return _http(device.port, mutated(chance, request(method, path, body, **headers)))

    return send


def _sound_requests(bundle: bytes) -> Sequence[tuple[str, str, bytes, dict[str, int]]]:
    x = {"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": [1.0] * WIDTH}
    head = json.dumps({"inputs": [{**x, "parameters": {"binary_data_size": 4 * WIDTH}}]}).encode()
    text = json.dumps({"inputs": [x], "id": "7", "parameters": {"binary_data_output": True}}).encode()
    desired = json.dumps({"bundle": "http://127.0.0.1:9/x", "digest": f"sha256:{'0' * 64}"}).encode()
    infer = f"/v2/models/{MODEL}/infer"
    found: list[tuple[str, str, bytes, dict[str, int]]] = [("POST", infer, text, {})] * 10
    length = {"Inference_Header_Content_Length": len(head)}
    found += [("POST", infer, head + bytes(4 * WIDTH), length)] * 5
    for route in ROUTES:
        path = route.path.replace("{name}", MODEL).replace("{number}", "1").replace("{trial}", "1")
        query = "&".join(f"{each.name}=1" for each in route.parameters if each.name != "wait_s")
        body = bundle if route.path.endswith("/deploy") else desired if route.path.endswith("/desired") else b"{}"
        if route.method in {"GET", "POST"}:
            body = body if route.method == "POST" else b""
            found.append((route.method, f"{path}?{query}" if query else path, body, {}))
    return found


def _http(port: int, content: bytes) -> str:
    """The status of the answer; of a connection without one, why."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        try:
            connection.sendall(content)
            connection.settimeout(_SOON_S)
            with suppress(TimeoutError):
                received = connection.recv(65536)
            connection.shutdown(socket.SHUT_WR)  # what is incomplete stays so
            connection.settimeout(LIMIT_S)
            while (piece := connection.recv(65536)) and b"101 Switching Protocols" not in received:
                received += piece
        except ConnectionError:
            pass
        except TimeoutError:
            return "no end"
    if not received:
        return "closed"
    return received[9:12].decode("latin-1") if received.startswith(b"HTTP/1.1 ") else "no HTTP"


def _grpc_sender(channel: grpc.Channel, port: int, chance: random.Random) -> Callable[[], str]:
    calls = {method: channel.unary_unary(SERVICE + method) for method in METHODS}
    infer = messages.ModelInferRequest(model_name=MODEL, id="7")
    tensor = infer.inputs.add(name="x", datatype="FP32", shape=[1, WIDTH])
    raw = messages.ModelInferRequest()
    raw.CopyFrom(infer)
    raw.raw_input_contents.append(bytes(4 * WIDTH))
    tensor.contents.fp32_contents.extend([1.0] * WIDTH)
    sound = [infer.SerializeToString(), raw.SerializeToString()]
    sound.append(messages.ModelMetadataRequest(name=MODEL, version="1").SerializeToString())

    def send() -> str:
        if chance.random() < 0.1:  # not even gRPC
            return _frames(port, chance)
        content = mutated(chance, chance.choice(sound))
        try:
            calls[chance.choice(("ModelInfer", *METHODS))](content, timeout=LIMIT_S)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    return send


def _frames(port: int, chance: random.Random) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection, suppress(OSError):
        connection.sendall(mutated(chance, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(60)))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            """Until the agent ends the connection."""
    return "closed"


def _mqtt_sender(client: Client, chance: random.Random) -> Callable[[], str]:
    """Messages have no answer; every hundredth is followed by a sound command, which must be answered."""
    bundle = DesiredBundle(bundle="http://127.0.0.1:9/x", digest=f"sha256:{'0' * 64}", force=True)
    topics, count = client.topics, 0

    def send() -> str:
        nonlocal count
        count += 1
        if count % 100 == 0:
            return str(client.ask("view", {"command": "status"})["status"])
        if chance.random() < 0.5:
            state = DesiredState(sequence=count, fleet=topics.fleet, device=topics.device, desired=bundle)
            content, topic = desired_message(state), topics.desired
        else:
            command = chance.choice(("status", "releases", "deployment", "device", "cancel", "remove"))
            role = chance.choice(("view", "deploy"))
            content, topic = json.dumps({"command": command, "model": "x"}).encode(), topics.command(role)
        client.publish(topic, mutated(chance, content))
        return "sent"

    return send


def _measurement_sender(device: Device, chance: random.Random) -> Callable[[], str]:
    sound = [json.dumps(step).encode() + b"\n" for step in STEPS]

    def send() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", device.port, timeout=LIMIT_S)
        try:
            connection.request("POST", "/api/v1/trials?beside_serving=1")
            answer = connection.getresponse()
            if answer.status == http.client.CONFLICT:  # the session before has not ended yet
                time.sleep(0.1)
            if answer.status != http.client.OK:
                return f"{answer.status} at the start"
            session = json.loads(answer.readline())["trial"]
            statuses = []
            for step in sound:
                content = mutated(chance, step) if chance.random() < 0.7 else step
                statuses.append(_http(device.port, request("POST", f"/api/v1/trials/{session}", content)))
            return statuses[-1]
        finally:
            connection.close()

    return send


if __name__ == "__main__":
    main()
