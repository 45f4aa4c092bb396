"""OpenVINO in a process of its own: on some of these models it takes its process along."""

import atexit
import pickle
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx

from edgeopt.privacy import keep_runtimes_quiet

ROOT = Path(__file__).parents[2]
MOST_CASES = 100  # in one process; what one case does to its memory must not be blamed on a much later one
SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


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
            self.process.wait()
        self.process, self.loaded = None, 0


@cache
def child() -> Child:
    made = Child()
    atexit.register(made.close)
    return made


def answers(model: onnx.ModelProto, feeds: list[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray] | str]:
    """What OpenVINO answers to each of these, or what it says against it; CrashedError when it says no more."""
    one = child()
    if one.loaded >= MOST_CASES:
        one.close()
    one.loaded += 1
    names = [value.name for value in model.graph.output]
    return one.ask(model.SerializeToString(), names, feeds)  # type: ignore[return-value]


def serve(questions: BinaryIO, replies: BinaryIO) -> None:
    keep_runtimes_quiet()
    import openvino

    core = openvino.Core()
    while True:
        try:
            model, names, feeds = pickle.load(questions)  # noqa: S301 - what this very file wrote
        except EOFError:
            return
        pickle.dump(_answers(core, model, names, feeds), replies)
        replies.flush()


def _answers(core, model: bytes, names: list[str], feeds: list[dict]) -> list:
    try:
        compiled = core.compile_model(core.read_model(model), "CPU", SETTINGS)
    except Exception as error:  # noqa: BLE001 - whatever it says is the answer
        return [str(error)] * len(feeds)
    taken = {name for port in compiled.inputs for name in port.get_names()}
    said: list = []
    for one in feeds:
        try:
            results = compiled({name: array for name, array in one.items() if name in taken})
            said.append({name: np.array(results[place]) for place, name in enumerate(names)})
        except Exception as error:  # noqa: BLE001 - the same
            said.append(str(error))
    return said


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
