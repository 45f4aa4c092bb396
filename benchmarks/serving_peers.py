"""The agent beside MLServer and bare echoes (Starlette, gRPC): one model and the same requests, interleaved.

All servers run at once and answer alternating blocks of requests, so that a busy moment meets all of them. Clients
are one process with plain sockets: requests are built once, answers are read but not parsed. Each figure is the
median over rounds; the first table shows what a request of one client takes beyond the runtime's own call in this
process. The bundle is the built-in sample after a search; MLServer runs the model by ONNX Runtime on one thread.

    python benchmarks/serving_peers.py
    python benchmarks/serving_peers.py --bundle digits_cnn.edgeopt
    python benchmarks/serving_peers.py --mlserver ~/mlserver/bin/python --rounds 3

`--mlserver` names the Python of an environment with `pip install mlserver onnxruntime 'uvloop<0.22'`.
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import numpy as np
import tritonclient.http as triton
from tritonclient.grpc import service_pb2

import edgeopt
from edgeopt.bundle.runtime.session import Session
from edgeopt.data.demo import DATA, MODEL

AGENT = (sys.executable, "-m", "edgeopt_agent.main")
CLIENTS = (8, 32)
BLOCK = 50
NAME = "digits_cnn"
_START_S = 60.0
_ECHO = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

async def echo(request: Request) -> Response:
    return Response(await request.body())

routes = [Route("/{path:path}", echo, methods=["GET", "POST"])]
uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="error", access_log=False)
"""
_GRPC_ECHO = """
import asyncio, sys, grpc

async def echo(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    return request

async def main() -> None:
    method = {"ModelInfer": grpc.unary_unary_rpc_method_handler(echo)}
    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", method)
    server.add_generic_rpc_handlers([handler])
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    await server.start()
    await server.wait_for_termination()

asyncio.run(main())
"""
_MLSERVER_MODEL = """
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

class Onnx(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        self._outputs = [each.name for each in self._session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feeds = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        found = zip(self._outputs, self._session.run(None, feeds))
        outputs = [NumpyCodec.encode_output(name, values) for name, values in found]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""


@dataclass(frozen=True)
class HttpWay:
    """The bytes of one request over and over, on connections that stay open."""

    label: str
    port: int
    request: bytes

    def once(self) -> Callable[[], object]:
        connection = _connect(self.port)

        def ask() -> None:
            connection.sendall(self.request)
            status, _ = _answer(connection.recv, bytearray())
            assert status == 200, status  # noqa: S101 - a benchmark of errors would be none

        return ask

    def load(self, clients: int, seconds: float) -> list[float]:
        """The latencies of clients that each ask again as soon as they are answered."""
        taken: list[float] = []
        with selectors.DefaultSelector() as waiting, ExitStack() as stack:
            for _ in range(clients):
                connection = stack.enter_context(_connect(self.port))
                connection.setblocking(False)
                connection.send(self.request)
                waiting.register(connection, selectors.EVENT_READ, [time.perf_counter(), bytearray()])
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                for key, _ in waiting.select(1.0):
                    connection, state = key.fileobj, key.data
                    status, whole = _answer(connection.recv, state[1], wait=False)
                    if not whole:
                        continue
                    assert status == 200, status  # noqa: S101 - see above
                    now = time.perf_counter()
                    taken.append(now - state[0])
                    state[0], state[1] = now, bytearray()
                    connection.send(self.request)
        return taken


@dataclass(frozen=True)
class GrpcWay:
    """One message over and over; each client has a connection of its own, as on other machines."""

    label: str
    port: int
    message: bytes

    def once(self) -> Callable[[], object]:
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1)])
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        return lambda: call(self.message)

    def load(self, clients: int, seconds: float) -> list[float]:
        taken: list[list[float]] = [[] for _ in range(clients)]
        asks = [self.once() for _ in range(clients)]
        for ask in asks:
            ask()
        stop = time.perf_counter() + seconds

        def work(ask: Callable[[], object], times: list[float]) -> None:
            while (begin := time.perf_counter()) < stop:
                ask()
                times.append(time.perf_counter() - begin)

        threads = [threading.Thread(target=work, args=pair) for pair in zip(asks, taken, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [each for times in taken for each in times]


Way = HttpWay | GrpcWay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="default: one made of the built-in sample within 60 s")
    parser.add_argument("--mlserver", help="the Python that has MLServer; left out without")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1000, help="of one client in a round")
    parser.add_argument("--seconds", type=float, default=3.0, help="of 8 and of 32 clients in a round")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        bundle = given.bundle or _optimized(place)
        session = edgeopt.load(bundle)
        feeds = {
            info.name: np.zeros([size if isinstance(size, int) else 1 for size in info.shape], info.dtype)
            for info in session.inputs
        }
        ways = [*stack.enter_context(_agent(bundle, place, feeds)), *stack.enter_context(_echoes(feeds))]
        if given.mlserver:
            ways += stack.enter_context(_mlserver(given.mlserver, place, feeds))
        _one_client(session, feeds, ways, given.rounds, given.requests)
        for clients in CLIENTS:
            _many_clients(ways, clients, given.rounds, given.seconds)


def _one_client(session: Session, feeds: dict[str, Any], ways: list[Way], rounds: int, count: int) -> None:
    asks: dict[str, Callable[[], object]] = {"session in this process": lambda: session.run(feeds)}
    asks |= {way.label: way.once() for way in ways}
    medians: dict[str, list[float]] = {label: [] for label in asks}
    for _ in range(rounds):
        taken: dict[str, list[float]] = {label: [] for label in asks}
        for _ in range(count // BLOCK):
            for label, ask in asks.items():
                for _ in range(BLOCK):
                    begin = time.perf_counter()
                    ask()
                    taken[label].append((time.perf_counter() - begin) * 1e3)
        for label, times in taken.items():
            medians[label].append(statistics.median(times))
    own = statistics.median(medians["session in this process"])
    print(f"one client, median of {rounds} rounds of {count} requests; load {os.getloadavg()[0]:.1f}")
    for label, found in medians.items():
        median = statistics.median(found)
        spread = f"{min(found):.3f} to {max(found):.3f}"
        print(f"  {label:28s} {median:7.3f} ms  {median - own:+7.3f} ms over the session  ({spread})")


def _many_clients(ways: list[Way], clients: int, rounds: int, seconds: float) -> None:
    rates: dict[str, list[float]] = {way.label: [] for way in ways}
    p99s: dict[str, list[float]] = {way.label: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            taken = way.load(clients, seconds)
            rates[way.label].append(len(taken) / seconds)
            p99s[way.label].append(float(np.percentile(taken, 99)) * 1e3)
    print(f"{clients} clients, median of {rounds} rounds of {seconds:g} s; load {os.getloadavg()[0]:.1f}")
    for label, found in rates.items():
        spread = f"{min(found):.0f} to {max(found):.0f}"
        p99_ms = statistics.median(p99s[label])
        print(f"  {label:28s} {statistics.median(found):7.0f} requests/s, p99 {p99_ms:7.2f} ms  ({spread})")


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _answer(receive: Callable[[int], bytes], have: bytearray, *, wait: bool = True) -> tuple[int, bool]:
    """The status of an HTTP answer, and whether it is there to its end."""
    while True:
        if not (piece := receive(1 << 18)):
            raise ConnectionError("the server closed the connection")
        have += piece
        head, found, body = bytes(have).partition(b"\r\n\r\n")
        if found:
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            if len(body) >= length:
                return int(head.split(b" ", 2)[1]), True
        if not wait:
            return 0, False


def _http_request(path: str, body: bytes, header_length: int | None = None) -> bytes:
    fields = f"Host: localhost\r\nContent-Length: {len(body)}\r\n"
    fields += "Content-Type: application/json\r\n" if header_length is None else ""
    if header_length is not None:
        fields += f"Inference-Header-Content-Length: {header_length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n".encode() + body


def _tensors(feeds: dict[str, Any], *, binary: bool) -> list[triton.InferInput]:
    return [
        triton.InferInput(key, list(array.shape), triton.np_to_triton_dtype(array.dtype)).set_data_from_numpy(
            array, binary_data=binary
        )
        for key, array in feeds.items()
    ]


def _json_body(feeds: dict[str, Any]) -> bytes:
    body, _ = triton.InferenceServerClient.generate_request_body(_tensors(feeds, binary=False))
    document = json.loads(body)
    document.pop("parameters", None)  # or outputs come as bytes
    return json.dumps(document).encode()


def _binary_request(path: str, feeds: dict[str, Any]) -> bytes:
    body, length = triton.InferenceServerClient.generate_request_body(_tensors(feeds, binary=True))
    return _http_request(path, body, length)


def _grpc_message(name: str, feeds: dict[str, Any]) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=name)
    for key, array in feeds.items():
        request.inputs.add(name=key, datatype=triton.np_to_triton_dtype(array.dtype), shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return bytes(request.SerializeToString())


def _optimized(folder: Path) -> Path:
    bundle = folder / f"{NAME}.edgeopt"
    command = [sys.executable, "-m", "edgeopt", "optimize", str(MODEL), "--data", str(DATA)]
    subprocess.run([*command, "--time-limit", "60", "-o", str(bundle)], check=True, stdout=subprocess.DEVNULL)
    return bundle


@contextmanager
def _agent(bundle: Path, folder: Path, feeds: dict[str, Any]) -> Iterator[list[Way]]:
    grpc_port = _free_port()
    command = [*AGENT, "run", "--port", "0", "--grpc-port", str(grpc_port), "--data-dir", str(folder / "agent")]
    command += ["--soak-seconds", "0", "--soak-requests", "0", "--json"]
    with _process(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        url = json.loads(process.stdout.readline())["message"]
        subprocess.run([*AGENT, "deploy", str(bundle), "--url", url], check=True, stdout=subprocess.DEVNULL)
        session = edgeopt.load(bundle)
        name = session.deployment.name if session.deployment else ""
        path, port = f"/v2/models/{name}/infer", int(url.rpartition(":")[2].strip("/"))
        yield [
            HttpWay("agent, REST binary", port, _binary_request(path, feeds)),
            HttpWay("agent, REST JSON", port, _http_request(path, _json_body(feeds))),
            GrpcWay("agent, gRPC", grpc_port, _grpc_message(name, feeds)),
        ]


@contextmanager
def _echoes(feeds: dict[str, Any]) -> Iterator[list[Way]]:
    port, grpc_port = _free_port(), _free_port()
    python = sys.executable
    with _process([python, "-c", _ECHO, str(port)]), _process([python, "-c", _GRPC_ECHO, str(grpc_port)]):
        _wait_for(f"http://127.0.0.1:{port}/")
        yield [
            HttpWay("Starlette echo", port, _binary_request("/echo", feeds)),
            GrpcWay("gRPC echo", grpc_port, _grpc_message(NAME, feeds)),
        ]


@contextmanager
def _mlserver(python: str, folder: Path, feeds: dict[str, Any]) -> Iterator[list[Way]]:
    place = folder / "mlserver"
    place.mkdir()
    (place / "onnx_model.py").write_text(_MLSERVER_MODEL, encoding="utf-8")
    port, grpc_port, metrics_port = _free_port(), _free_port(), _free_port()
    settings = {"http_port": port, "grpc_port": grpc_port, "metrics_port": metrics_port, "host": "127.0.0.1"}
    model = {"name": NAME, "implementation": "onnx_model.Onnx", "parameters": {"uri": str(MODEL)}}
    (place / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (place / "model-settings.json").write_text(json.dumps(model), encoding="utf-8")
    with (folder / "mlserver.log").open("wb") as log:
        command = [python, "-c", "from mlserver.cli import main; main()", "start", str(place)]
        with _process(command, stdout=log, stderr=log):
            _wait_for(f"http://127.0.0.1:{port}/v2/models/{NAME}/ready")
            path = f"/v2/models/{NAME}/infer"
            yield [
                HttpWay("MLServer, REST JSON", port, _http_request(path, _json_body(feeds))),
                GrpcWay("MLServer, gRPC", grpc_port, _grpc_message(NAME, feeds)),
            ]


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:  # noqa: ANN401 - Popen's
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), urlopen(url):  # noqa: S310 - an address of this machine
            return
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer.")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
