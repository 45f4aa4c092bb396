"""What the agent adds to the runtime's own call: clients and a session in this process.

First interleaved, as medians of single requests; then as requests a second and p99 of 1, 8 and 32 clients;
then 8 clients with and without batching in the worker, beside the runtime's own batch of 8. Clients are threads of
this process and share its cores with the agent.

python benchmarks/agent_overhead.py [--bundle BUNDLE] [--rounds 1000] [--seconds 3]
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import grpc
import numpy as np
import tritonclient.http as triton
from tritonclient.grpc import service_pb2

import edgeopt
from edgeopt.bundle.runtime.session import Session
from edgeopt.data.demo import DATA, MODEL

AGENT = [sys.executable, "-m", "edgeopt_agent.main"]
CLIENTS = (1, 8, 32)
BATCH = 8
DELAYS_US = (0, 1000)
Way = Callable[[], Callable[[], object]]
"""Connects a client; what it gives asks once."""


def main() -> None:
    """Prints one line a way of asking."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="default: one made of the built-in sample")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = given.bundle or _optimized(Path(folder))
        grpc_port = _free_port()
        with _agent(Path(folder) / "data", "--grpc-port", str(grpc_port)) as url:
            _run([*AGENT, "deploy", str(bundle), "--url", url])
            places = urlsplit(url).netloc, f"127.0.0.1:{grpc_port}"
            _compare(bundle, *places, given.rounds)
            _load(bundle, *places, given.seconds)
        _batching(bundle, Path(folder), given.seconds)


def _compare(bundle: Path, place: str, grpc_place: str, rounds: int) -> None:
    session = edgeopt.load(bundle)
    feeds = _feeds(session)
    name = session.deployment.name if session.deployment else ""
    client = triton.InferenceServerClient(place)
    ways: dict[str, Callable[[], object]] = {
        "session in this process": lambda: session.run(feeds),
        "tritonclient, binary": _by_triton(client, name, feeds, binary=True),
        "tritonclient, JSON": _by_triton(client, name, feeds, binary=False),
        "http.client, binary": _by_http(place, name, feeds),
        "http.client, JSON": _by_http(place, name, feeds, binary=False),
        "http.client, /v2/health/live": _alive(place),
        "gRPC": _by_grpc(grpc_place, name, feeds),
        "gRPC, ServerLive": _by_call(grpc_place, "ServerLive", b""),
    }
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for label, way in ways.items():
            begin = time.perf_counter()
            way()
            taken[label].append((time.perf_counter() - begin) * 1e3)
    own = statistics.median(taken["session in this process"])
    for label, times in taken.items():
        median = statistics.median(times)
        print(f"{label:30s} {median:7.3f} ms  ({median - own:+.3f} ms over the session)")
    inside = client.get_inference_statistics(name)["model_stats"][0]["inference_stats"]
    count = inside["success"]["count"]
    for part in ("success", "queue", "compute_infer"):
        print(f"in the agent, mean: {part:14s} {inside[part]['ns'] / count / 1e6:7.3f} ms")


def _feeds(session: Session, rows: int = 1) -> dict[str, Any]:
    return {
        info.name: np.zeros([size if isinstance(size, int) else rows for size in info.shape], info.dtype)
        for info in session.inputs
    }


def _load(bundle: Path, place: str, grpc_place: str, seconds: float) -> None:
    session = edgeopt.load(bundle)
    feeds = _feeds(session)
    name = session.deployment.name if session.deployment else ""
    ways: dict[str, Way] = {
        "session in this process": lambda: lambda: session.run(feeds),
        "HTTP, binary": lambda: _by_http(place, name, feeds),
        "HTTP, JSON": lambda: _by_http(place, name, feeds, binary=False),
        "gRPC": lambda: _by_grpc(grpc_place, name, feeds),
    }
    for clients in CLIENTS:
        for label, way in ways.items():
            print(f"{clients:3d} clients, {label:24s} {_under_load(way, clients, seconds)}")


def _batching(bundle: Path, folder: Path, seconds: float) -> None:
    """Requests of one row each from as many clients as a batch holds."""
    session = edgeopt.load(bundle)
    feeds, whole = _feeds(session), _feeds(session, BATCH)
    name = session.deployment.name if session.deployment else ""
    if any(array.shape[:1] != (BATCH,) for array in whole.values()):
        print("no batches: an input of the model has no open first axis")
        return
    times = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        session.run(whole)
        times.append(time.perf_counter() - begin)
    rows_s = BATCH / statistics.median(times)
    print(f"runtime's own batch of {BATCH}: {rows_s:8.0f} rows/s in this process")
    for size, delay_us in ((0, 0), *((BATCH, each) for each in DELAYS_US)):
        config = folder / f"agent-{size}-{delay_us}.toml"
        config.write_text(f"batch_max_size = {size}\nbatch_max_delay_us = {delay_us}\n", encoding="utf-8")
        with _agent(folder / f"data-{size}-{delay_us}", "--config", str(config)) as url:
            _run([*AGENT, "deploy", str(bundle), "--url", url])
            place = urlsplit(url).netloc
            found = _under_load(lambda place=place: _by_http(place, name, feeds), BATCH, seconds)
            (stats,) = triton.InferenceServerClient(place).get_inference_statistics(name)["model_stats"]
            with urlopen(f"{url}/api/v1/status") as answer:  # noqa: S310 - the agent's own address
                judged = json.load(answer)["batching"]
        share = stats["inference_count"] / stats["execution_count"]
        label = f"batches of {size} within {delay_us} us" if size else "no batches"
        print(f"{BATCH} clients, {label:28s} {found}; {share:.2f} rows a run")
        if judged:
            print(f"  {judged['reason']}")


def _under_load(way: Way, clients: int, seconds: float) -> str:
    """Requests a second of clients that each ask again once answered, and the p99 of their latencies."""
    taken: list[list[float]] = [[] for _ in range(clients)]
    start = threading.Barrier(clients + 1)
    stop = threading.Event()

    def ask(times: list[float]) -> None:
        once = way()
        once()
        start.wait()
        while not stop.is_set():
            begin = time.perf_counter()
            once()
            times.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=ask, args=(times,)) for times in taken]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begin
    merged = [each for times in taken for each in times]
    p99_ms = float(np.percentile(merged, 99)) * 1e3
    return f"{len(merged) / took_s:8.0f} requests/s, p99 {p99_ms:7.2f} ms, load {os.getloadavg()[0]:.1f}"


def _by_triton(
    client: triton.InferenceServerClient, name: str, feeds: dict[str, Any], binary: bool
) -> Callable[[], object]:
    inputs = []
    for key, array in feeds.items():
        tensor = triton.InferInput(key, list(array.shape), triton.np_to_triton_dtype(array.dtype))
        inputs.append(tensor.set_data_from_numpy(array, binary_data=binary))
    outputs = None if binary else _plain_outputs(client, name)
    return lambda: client.infer(name, inputs, outputs=outputs)


def _plain_outputs(client: triton.InferenceServerClient, name: str) -> list[triton.InferRequestedOutput]:
    known = client.get_model_metadata(name)["outputs"]
    return [triton.InferRequestedOutput(output["name"], binary_data=False) for output in known]


def _by_http(place: str, name: str, feeds: dict[str, Any], binary: bool = True) -> Callable[[], object]:
    connection = http.client.HTTPConnection(place)
    tensors = [
        triton.InferInput(key, list(array.shape), triton.np_to_triton_dtype(array.dtype)).set_data_from_numpy(
            array, binary_data=binary
        )
        for key, array in feeds.items()
    ]
    outputs = None if binary else _plain_outputs(triton.InferenceServerClient(place), name)
    body, length = triton.InferenceServerClient.generate_request_body(tensors, outputs=outputs)
    headers = {"Inference-Header-Content-Length": str(length)} if length else {}

    def ask() -> bytes:
        connection.request("POST", f"/v2/models/{name}/infer", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        return content

    return ask


def _by_grpc(place: str, name: str, feeds: dict[str, Any]) -> Callable[[], object]:
    """The bytes of one request over and over: the library's own messages would be timed as well."""
    request = service_pb2.ModelInferRequest(model_name=name)
    for key, array in feeds.items():
        datatype = triton.np_to_triton_dtype(array.dtype)
        request.inputs.add(name=key, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return _by_call(place, "ModelInfer", request.SerializeToString())


def _by_call(place: str, method: str, message: bytes) -> Callable[[], object]:
    # A connection of its own, as clients on other machines have.
    channel = grpc.insecure_channel(place, options=[("grpc.use_local_subchannel_pool", 1)])
    call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    return lambda: call(message)


def _alive(place: str) -> Callable[[], object]:
    connection = http.client.HTTPConnection(place)

    def ask() -> bytes:
        connection.request("GET", "/v2/health/live")
        return connection.getresponse().read()

    return ask


def _optimized(folder: Path) -> Path:
    bundle = folder / "digits_cnn.edgeopt"
    _run(
        [
            *(sys.executable, "-m", "edgeopt", "optimize", str(MODEL), "--data", str(DATA)),
            *("--time-limit", "10", "-o", str(bundle)),
        ]
    )
    return bundle


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def _agent(data_dir: Path, *options: str) -> Iterator[str]:
    """A real agent on a free port; its address."""
    no_soak = ["--soak-seconds", "0", "--soak-requests", "0"]
    command = [*AGENT, "run", "--port", "0", "--data-dir", str(data_dir), *no_soak, *options, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        try:
            yield json.loads(process.stdout.readline())["message"]
        finally:
            process.terminate()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
