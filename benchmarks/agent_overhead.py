"""What the agent adds to the runtime's own call: clients and a session in this process, in turns, medians.

python benchmarks/agent_overhead.py [--bundle BUNDLE] [--rounds 1000]
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import tritonclient.http as triton

import edgeopt
from edgeopt.data.demo import DATA, MODEL

AGENT = [sys.executable, "-m", "edgeopt_agent.main"]


def main() -> None:
    """Prints one line a way of asking."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="default: one made of the built-in sample")
    parser.add_argument("--rounds", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = given.bundle or _optimized(Path(folder))
        with _agent(Path(folder) / "data") as url:
            _run([*AGENT, "deploy", str(bundle), "--url", url])
            _compare(bundle, urlsplit(url).netloc, given.rounds)


def _compare(bundle: Path, place: str, rounds: int) -> None:
    session = edgeopt.load(bundle)
    feeds = {
        info.name: np.zeros([size if isinstance(size, int) else 1 for size in info.shape], info.dtype)
        for info in session.inputs
    }
    name = session.deployment.name if session.deployment else ""
    client = triton.InferenceServerClient(place)
    ways: dict[str, Callable[[], object]] = {
        "session in this process": lambda: session.run(feeds),
        "tritonclient, binary": _by_triton(client, name, feeds, binary=True),
        "tritonclient, JSON": _by_triton(client, name, feeds, binary=False),
        "http.client, binary": _by_http(place, name, feeds),
        "http.client, /v2/health/live": _alive(place),
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


def _by_http(place: str, name: str, feeds: dict[str, Any]) -> Callable[[], object]:
    connection = http.client.HTTPConnection(place)
    tensors = [
        triton.InferInput(key, list(array.shape), triton.np_to_triton_dtype(array.dtype)).set_data_from_numpy(
            array
        )
        for key, array in feeds.items()
    ]
    body, length = triton.InferenceServerClient.generate_request_body(tensors)
    headers = {"Inference-Header-Content-Length": str(length)}

    def ask() -> bytes:
        connection.request("POST", f"/v2/models/{name}/infer", body, headers)
        return connection.getresponse().read()

    return ask


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


@contextmanager
def _agent(data_dir: Path) -> Iterator[str]:
    """A real agent on a free port; its address."""
    no_soak = ["--soak-seconds", "0", "--soak-requests", "0"]
    command = [*AGENT, "run", "--port", "0", "--data-dir", str(data_dir), *no_soak, "--json"]
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
