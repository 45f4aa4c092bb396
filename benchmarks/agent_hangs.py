"""What serves, and after how many seconds, when a run of a model hangs in native code.

Each case runs an agent of its own with ONNX models: a `Loop` without end for inputs that hold a negative number,
which ONNX Runtime runs with the interpreter's lock free. Seconds count from the request that hangs. Its answer,
those of four requests sent behind it, and the first answer to a request sent afterwards are shown.

Example:
  python benchmarks/agent_hangs.py --hang-seconds 2
  python benchmarks/agent_hangs.py --only soak
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import parser

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, SourceModel, Tensor

AGENT = [sys.executable, "-m", "edgeopt_agent.main"]
BEHIND = 4
PATIENCE_S = 60.0
TABLE = "{:34s} {:>14s} {:>22s} {:>8s} {:>12s}  {}"

_ENDLESS = """
    zero = Constant<value = float {0}> ()  least = ReduceMin<keepdims = 0>(x)  hangs = Less(least, zero)
    most = Constant<value = int64 {9223372036854775807}> ()
    spun = Loop(most, hangs, x) <body = spin (int64 turn, bool go, float[n, 4] before) =>
        (bool again, float[n, 4] after) { again = Identity(go)  after = Identity(before) }>"""
_PLAIN = "spun = Identity(x)"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    before: int = 0
    """Requests that are answered before the one that hangs."""
    predecessor: bool = True
    soaking: bool = False
    batch: int = 0
    sequence: bool = False
    hangs: int = 1
    """Different requests that hang, one after the other."""


CASES = (
    Case("first run"),
    Case("hundredth run", before=99),
    Case("batches of 8", batch=8),
    Case("step of a sequence", sequence=True),
    Case("soak, with predecessor", soaking=True),
    Case("soak, first release", soaking=True, predecessor=False),
    Case("soak, 3 different hangs", soaking=True, hangs=3),
    Case("soak, 3 hangs, first release", soaking=True, hangs=3, predecessor=False),
    Case("committed, 3 different hangs", hangs=3),
    Case("committed, 3 hangs, no predecessor", hangs=3, predecessor=False),
)


def main() -> None:
    """Prints one line a case."""
    formatter = argparse.RawDescriptionHelpFormatter
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    arguments.add_argument(
        "--hang-seconds", type=float, default=2.0, help="hang_timeout_s of the agent (default 2)"
    )
    arguments.add_argument("--only", default="", help="cases with this in their name")
    given = arguments.parse_args()
    print(f"hang_timeout_s = {given.hang_seconds:g}; the last request that hangs counts")
    print(TABLE.format("case", "hung request", f"{BEHIND} requests behind", "serves", "by", "deployment"))
    for case in CASES:
        if given.only in case.name:
            with tempfile.TemporaryDirectory() as folder:
                print(_measured(case, Path(folder), given.hang_seconds), flush=True)


def _measured(case: Case, folder: Path, hang_s: float) -> str:
    old = _bundle(folder / "old", _PLAIN, case.sequence)
    new = _bundle(folder / "new", _ENDLESS, case.sequence)
    settings = f"hang_timeout_s = {hang_s}\nbatch_max_size = {case.batch}\nsoak_requests = 0\n"
    (folder / "agent.toml").write_text(settings, encoding="utf-8")
    with _agent(folder) as port, ThreadPoolExecutor(BEHIND + 1) as pool:
        if case.predecessor:
            _deploy(port, old, 0.0)
        _deploy(port, new, 600.0 if case.soaking else 0.0)
        sequence: dict[str, Any] = {"sequence_id": 7, "sequence_start": True} if case.sequence else {}
        for number in range(case.before or len(sequence)):
            _ask(port, number, sequence)
        for hang in range(case.hangs):
            _until(lambda: _answering(port) == "new")
            started = time.monotonic()
            hung = pool.submit(
                _timed, lambda hang=hang: _ask(port, -1 - hang, {**sequence, "sequence_start": False})
            )
            _until(lambda: _pending(port) > 0)
            behind = [pool.submit(_timed, lambda number=number: _ask(port, number)) for number in range(BEHIND)]
            status, _ = _result(hung)
        _until(lambda: _answering(port) or _is_vacant(port))
        serves_s = time.monotonic() - started
        if case.hangs > 1:
            _until(lambda: _get(port, "/api/v1/status")["state"] != "deploying")
            _until(lambda: _answering(port) or _is_vacant(port))
        said = f"{status[0]} after {hung.result()[1]:.1f} s"
        answers = [each.result()[0][0] for each in behind]
        counts = ", ".join(f"{answers.count(each)} x {each}" for each in sorted(set(answers)))
        deployment = _get(port, "/api/v1/status")["deployment"]
        state = f"{deployment['kind']} {deployment['state']}"
        by = _answering(port)
        name = case.name
        if case.batch:
            used = _get(port, "/api/v1/status")["batching"]["used"]
            name += " (used)" if used else " (not used)"
        return TABLE.format(name, said, counts, f"{serves_s:.1f} s" if by else "-", by or "nothing", state)


def _result(future: "Future[tuple[tuple[int, Any], float]]") -> tuple[tuple[int, Any], float]:
    return future.result(PATIENCE_S)


def _timed(act: Callable[[], tuple[int, Any]]) -> tuple[tuple[int, Any], float]:
    begin = time.monotonic()
    return act(), time.monotonic() - begin


def _until(ready: Callable[[], object], short: bool = False) -> None:
    deadline = time.monotonic() + (10.0 if short else PATIENCE_S)
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.05)


def _answering(port: int) -> str:
    """Which release answers: the new one, the old one, or none."""
    status, answer = _ask(port, 1)
    if status != 200:
        return ""
    return "old" if answer["outputs"][0]["data"][0] == 1.0 else "new"


def _ask(port: int, number: float, parameters: dict[str, Any] | None = None) -> tuple[int, Any]:
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [number, 1, 1, 1]}
    inputs = [x]
    if not parameters and _stateful(port):
        inputs.append({"name": "h", "datatype": "FP32", "shape": [1, 4], "data": [0.0] * 4})
    body: dict[str, Any] = {"inputs": inputs} | ({"parameters": parameters} if parameters else {})
    return _send(port, "POST", "/v2/models/hang/infer", json.dumps(body))


def _is_vacant(port: int) -> bool:
    """Whether nothing serves, and nothing is about to."""
    return bool(_get(port, "/api/v1/status")["state"] == "empty")


def _stateful(port: int) -> bool:
    _, found = _send(port, "GET", "/v2/models/hang")
    return any(each["name"] == "h" for each in found.get("inputs", ()))


def _get(port: int, path: str) -> dict[str, Any]:
    found: dict[str, Any] = _send(port, "GET", path)[1]
    return found


def _send(port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


def _pending(port: int) -> float:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("nv_inference_pending_request_count{"))


@contextmanager
def _agent(folder: Path) -> Iterator[int]:
    command = [*AGENT, "run", "--config", str(folder / "agent.toml"), "--data-dir", str(folder / "data")]
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        line = next(line for line in process.stdout if "http://" in line)
        yield int(line.split("http://", 1)[1].split("/")[0].split()[0].rstrip(".,").rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.communicate()


def _deploy(port: int, bundle: Path, soak_s: float) -> None:
    """Sends a bundle and waits until it serves."""
    url = f"http://127.0.0.1:{port}"
    command = [*AGENT, "deploy", str(bundle), "--url", url, "--force", "--soak-seconds", str(soak_s)]
    subprocess.run([*command, *(["--no-wait"] if soak_s else [])], check=True, capture_output=True)
    wanted = {"SOAKING"} if soak_s else {"COMMITTED"}
    _until(lambda: _get(port, "/api/v1/status")["deployment"]["state"] in wanted)


def _bundle(folder: Path, core: str, stateful: bool) -> Path:
    """The old model returns its input, the new one twice that."""
    folder.mkdir()
    state, carried = (", float[n, 4] h", ", float[n, 4] hn") if stateful else ("", "")
    factor = 1 if core == _PLAIN else 2
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        f"g (float[n, 4] x{state}) => (float[n, 4] y{carried}) {{ {core}"
        f" factor = Constant<value = float {{{factor}}}> ()  y = Mul(spun, factor)"
        f" {'hn = Add(h, spun)' if stateful else ''} }}"
    )
    file = folder / "hang.onnx"
    onnx.save(model, file)
    feeds = {name: np.full((1, 4), 2.0, np.float32) for name in ("x", "h")[: 2 if stateful else 1]}
    session = backend_named("onnxruntime-cpu").load(file, {})
    answers = session.run(feeds)
    deployment = Deployment(
        *(
            "hang",
            "2026-01-01T00:00:00+00:00",
            "0",
            "quick",
            "hangs",
            SourceModel(f"{factor}", str(factor) * 64, 1),
        ),
        run=Run("onnxruntime-cpu", "model/hang.onnx", {"threads": 1}),
        inputs=[Tensor(name, "float32", ["n", 4]) for name in feeds],
        outputs=[Tensor(name, "float32", ["n", 4]) for name in answers],
        device={},
    )
    out = folder / "hang.edgeopt"
    with write.draft(out) as draft:
        write.write_golden(draft, "inputs", [feeds])
        for golden in ("outputs", "reference"):
            write.write_golden(draft, golden, [answers])
        write.fill(draft, {"hang.onnx": file}, deployment, {"ledger.json": []})
        write.publish(draft, out)
    return out


if __name__ == "__main__":
    main()
