"""Every command that tells what it does, stopped at many moments: what reads it is never given half a record."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest

from edgeopt import events

# Moments of each command; from one to the next, and from command to command, the signal changes, and every third
# is read late. The sweep is for `make test-slow`.
SHARE, SWEPT = 1, 40
SENTINEL = "bench"
"""The command that `make test` stops once; the others are for `make test-slow`."""
AT_ONCE = 2
SMALL = ("{model}", "--data", "{samples}")
COMMANDS = {
    "watch": ("watch", "{null}", "--data", "{data}", "--seconds", "0.5"),
    "bench": ("bench", "{null}", "--against", "{null}", "--data", "{data}", "--rounds", "6"),
    "bench sustained": ("bench", "{null}", "--data", "{data}", "--duty", "sustained", "--minutes", "0.02"),
    "optimize": ("optimize", *SMALL, "--profile", "{short}", "-o", "{out}/out.edgeopt"),
    "quantize": ("quantize", *SMALL, "--time-limit", "5", "-o", "{out}/out.onnx"),
    "simplify": ("simplify", "{model}", "-o", "{out}/out.onnx"),
    "analyze": ("analyze", "{model}"),
    "compare": ("compare", "{model}", "{model}"),
    "probe": ("probe",),
    "ops": ("ops", "--quick", "--only", "Relu"),
    "fleet watch": ("fleet", "watch", "--url", "{url}", "--seconds", "0.5", "--send", "50"),
}
# What the last record says of a command that was stopped, and the exit code that goes with it.
CODES = {"cancelled": 130, "terminated": 143}


class Stopped(msgspec.Struct):
    code: int
    out: bytes
    err: bytes
    seconds: float
    left: list[str]


@pytest.fixture
def stop_at(tmp_path, ends, null_model, null_data, matmul_model, short_profile, request):
    """Runs one of the commands and sends it a signal so many seconds after its start; None: not at all."""
    places = {
        "null": null_model(latency_ms=5),
        "data": null_data,
        "model": matmul_model,
        "samples": tmp_path / "samples.npz",
        "short": short_profile,
    }
    np.savez(places["samples"], x=np.random.default_rng(5).standard_normal((32, 32)).astype(np.float32))

    def run(name, turn, moment_s=None, number=None, late=False):
        if name.startswith("fleet"):
            places.setdefault("url", request.getfixturevalue("serving_url"))
        out = tmp_path / f"out-{turn}"
        temporary = tmp_path / f"temporary-{turn}"
        for folder in (out, temporary):
            folder.mkdir()
        arguments = [each.format(out=out, **places) for each in COMMANDS[name]]
        ours, theirs = os.pipe()
        if late:
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 4096)
        begin = time.monotonic()
        with open(tmp_path / f"err-{turn}", "w+b") as err, open(ours, "rb") as pipe:  # noqa: PTH123 - one is no path
            process = subprocess.Popen(
                [sys.executable, "-m", "edgeopt", *arguments, "--json"],
                stdout=theirs,
                stderr=err,
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                    "TMPDIR": str(temporary),
                },
            )
            os.close(theirs)
            stopping = threading.Timer(moment_s or 0, process.send_signal, (number,))
            with process:
                if moment_s is not None:
                    stopping.start()
                if late:  # a reader that takes nothing before the signal has come
                    stopping.join()
                said = pipe.read()
                code = process.wait(60)
            stopping.cancel()
            err.seek(0)
            # One small file is ONNX Runtime's own, and every process of a user shares it.
            files = [each.name for each in temporary.iterdir() if each.name != ".ses"]
            left = [*still_there(temporary, ends), *files]
            return Stopped(code, said, err.read(), time.monotonic() - begin, left)

    return run


def still_there(temporary, ends):
    """The command lines of processes that this run has started and that do not end."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR", "").startswith(str(temporary)):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return [str(each) for each in found if not ends(each.pid)]


@pytest.fixture(scope="module")
def serving_url(tmp_path_factory, conv_bundle):
    """An agent that serves a bundle, for all moments."""
    folder = Path(tmp_path_factory.mktemp("agent"))
    settings = ("--data-dir", str(folder), "--soak-seconds", "0", "--soak-requests", "0")
    command = (sys.executable, "-m", "edgeopt_agent.main", "run", "--json", "--port", "0", "--log-level", "error")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([*command, *settings], env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            url = events.decode(process.stdout.readline()).message
            deploy = [sys.executable, "-m", "edgeopt_agent.main", "deploy", str(conv_bundle), "--url", url]
            subprocess.run(deploy, env=environment, check=True, capture_output=True)
            yield url
        finally:
            process.kill()


def codes_of(last, done):
    """The exit codes that fit what was said last; some commands have a result also when they were stopped."""
    if isinstance(last, events.Error):
        return {CODES.get(last.code)}
    return set(CODES.values()) if last.data.get("stopped_by") else {done}


def faults(stopped, done):
    """What is wrong with how it ended, as sentences; `done` is the exit code of one that was let be."""
    *lines, rest = stopped.out.split(b"\n")
    told = []
    for line in lines:
        try:
            told.append(events.decode(line))
        except msgspec.MsgspecError:
            yield f"no record: {line[:60]!r}...{line[-60:]!r}"
    if rest:
        yield f"a line without an end: {rest[-60:]!r}"
    last = [each for each in told if isinstance(each, events.Result | events.Error)]
    started = stopped.code not in {-signal.SIGTERM, -signal.SIGINT} and b"KeyboardInterrupt" not in stopped.err
    if not told and not started:
        return  # it was stopped while Python itself started
    if stopped.err:
        yield f"a complaint: {stopped.err[-300:].decode(errors='replace')}"
    if len(last) != 1 or told[-1] is not last[0]:
        yield f"{len(last)} last records, of {len(told)}, exit code {stopped.code}"
    elif stopped.code not in codes_of(last[0], done):
        yield f"exit code {stopped.code} after {last[0]}"[:200]
    if stopped.left:
        yield f"left: {stopped.left}"


def moments_of(name):
    once = (name, SHARE) if name == SENTINEL else pytest.param(name, SHARE, marks=pytest.mark.slow)
    return [once, pytest.param(name, SWEPT, marks=[pytest.mark.slow, pytest.mark.cold, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize(("name", "moments"), [row for name in COMMANDS for row in moments_of(name)])
def test_stopped_at_any_moment_it_tells_whole_records_and_leaves_nothing(stop_at, name, moments):
    whole = stop_at(name, "whole")
    assert list(faults(whole, whole.code)) == []

    first = list(COMMANDS).index(name)

    def stopped(turn):
        moment_s = whole.seconds * (turn + 0.5) / moments
        number = (signal.SIGTERM, signal.SIGINT)[(first + turn) % 2]
        found = stop_at(name, turn, moment_s, number, late=(first + turn) % 3 == 1)
        return [f"after {moment_s:.3f} s, {number.name}: {fault}" for fault in faults(found, whole.code)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [fault for found in pool.map(stopped, range(moments)) for fault in found] == []
