"""Runtimes in a process of their own: OpenVINO crashes on some of these models, ONNX Runtime on empty inputs."""

import atexit
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx

from edgeopt.privacy import keep_runtimes_quiet

ROOT = Path(__file__).parents[2]
MAX_CASES = 100  # in one process; what one case does to its memory must not be blamed on a much later one
SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}

Run = Callable[[dict], list]
Open = Callable[[bytes, list[str]], tuple[set[str], Run]]


class CrashedError(Exception):
    """The process is gone."""


class Child:
    """The process that answers, and what it was asked."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.loaded = 0

    def ask(self, *question: object) -> object:
        if self.process is None:
            command = [sys.executable, "-m", __name__]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            pickle.dump(question, self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)  # noqa: S301 - what this very file wrote
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            status = self.process.wait()
            self.close()
            raise CrashedError(f"the process ended with {status}") from error

    def close(self) -> None:
        if self.process is not None:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
            # A process forked meanwhile may hold the pipe open, so that this one would wait for its end.
            self.process.kill()
            self.process.wait()
        self.process, self.loaded = None, 0


@cache
def child() -> Child:
    made = Child()
    atexit.register(made.close)
    return made


def answers(
    runtime: str, model: onnx.ModelProto, feeds: list[Mapping[str, np.ndarray]]
) -> list[dict[str, np.ndarray] | str]:
    """What a runtime answers to each of these, or what it says against it; CrashedError when it says no more."""
    one = child()
    if one.loaded >= MAX_CASES:
        one.close()
    one.loaded += 1
    names = [value.name for value in model.graph.output]
    return one.ask(runtime, model.SerializeToString(), names, feeds)  # type: ignore[return-value]


def serve(questions: BinaryIO, replies: BinaryIO) -> None:
    keep_runtimes_quiet()
    opened = {
        "OpenVINO": _openvino,
        "ONNX Runtime": partial(_onnxruntime, rewrites=False),
        "ONNX Runtime, optimized": partial(_onnxruntime, rewrites=True),
    }
    while True:
        try:
            runtime, model, names, feeds = pickle.load(questions)  # noqa: S301 - what this very file wrote
        except EOFError:
            return
        pickle.dump(_answers(opened[runtime], model, names, feeds), replies)
        replies.flush()


def _answers(opened: Open, model: bytes, names: list[str], feeds: list[dict]) -> list:
    try:
        taken, run = opened(model, names)
    except Exception as error:  # noqa: BLE001 - whatever it says is the answer
        return [str(error)] * len(feeds)
    said: list = []
    for one in feeds:
        try:
            arrays = run({name: array for name, array in one.items() if name in taken})
            said.append({name: np.array(array) for name, array in zip(names, arrays, strict=True)})
        except Exception as error:  # noqa: BLE001 - the same
            said.append(str(error))
    return said


@cache
def _core():
    import openvino

    return openvino.Core()


def _openvino(model: bytes, names: list[str]) -> tuple[set[str], Run]:
    core = _core()
    read = core.read_model(model)
    compiled = [core.compile_model(read, "CPU", SETTINGS)]
    graph = onnx.load_from_string(model).graph
    inputs, made_of = {value.name for value in graph.input}, {n.output[0]: n.input for n in graph.node}

    def taken_by(name: str) -> str:
        """An input that goes through a Dropout has the name of what comes out there."""
        while name not in inputs:
            name = made_of[name][0]
        return name

    taken = [taken_by(min(port.get_names() & inputs or port.get_names())) for port in read.inputs]

    def run(feeds: dict) -> list:
        try:
            # In one thread `infer` hides errors.
            request = compiled[0].create_infer_request()
            request.start_async([feeds[name] for name in taken])
            request.wait()
        except RuntimeError:
            # After a run that failed, those of the next are stale.
            compiled[0] = core.compile_model(read, "CPU", SETTINGS)
            raise
        return [request.get_output_tensor(place).data.copy() for place in range(len(names))]

    return set(taken), run


def _onnxruntime(model: bytes, names: list[str], rewrites: bool) -> tuple[set[str], Run]:
    session = plain_session(model, rewrites)
    return {value.name for value in session.get_inputs()}, lambda feeds: session.run(names, feeds)


def plain_session(model: bytes, rewrites: bool = False):
    """ONNX Runtime's session of a model that it leaves as it is, or rewrites as it likes."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if rewrites else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
