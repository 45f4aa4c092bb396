"""A model in each runtime, which rewrites no more than it must: its answers, or what is said against them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from tests.differential import apart
from tests.differential.interpreter import program

Outputs = dict[str, np.ndarray]
Samples = Sequence[Mapping[str, np.ndarray]]
Answers = list[Outputs | str]


def reference(model: onnx.ModelProto, samples: Samples) -> Answers:
    try:
        made = program(model.graph, model.opset_import[0].version)
    except Exception as error:  # noqa: BLE001 - each operator has its own way to say that it is not there
        return [f"{type(error).__name__}: {error}"] * len(samples)
    return [_answer(lambda feeds=feeds: made.run(feeds)) for feeds in samples]


def onnxruntime(model: onnx.ModelProto, samples: Samples) -> Answers:
    """Empty inputs, with which some of its kernels end their process, are asked about in another one."""
    full = [place for place, feeds in enumerate(samples) if all(array.size for array in feeds.values())]
    empty = [place for place in range(len(samples)) if place not in full]
    found = dict(zip(full, _onnxruntime(model, [samples[place] for place in full]), strict=True))
    found |= zip(empty, _apart("ONNX Runtime", model, [samples[place] for place in empty]), strict=True)
    return [found[place] for place in range(len(samples))]


def _onnxruntime(model: onnx.ModelProto, samples: Samples) -> Answers:
    try:
        session = apart.plain_session(model.SerializeToString())
    except Exception as error:  # noqa: BLE001 - its errors have no class in common
        return [str(error)] * len(samples)
    names = [value.name for value in session.get_outputs()]
    taken = {value.name for value in session.get_inputs()}

    def run(feeds: Mapping[str, np.ndarray]) -> Outputs:
        arrays = session.run(None, {name: array for name, array in feeds.items() if name in taken})
        return dict(zip(names, arrays, strict=True))

    return [_answer(lambda feeds=feeds: run(feeds)) for feeds in samples]


def openvino(model: onnx.ModelProto, samples: Samples) -> Answers:
    return _apart("OpenVINO", model, samples)


def onnxruntime_optimized(model: onnx.ModelProto, samples: Samples) -> Answers:
    """With all its rewrites, as users run it; it believes what a file declares of shapes."""
    return _apart(OPTIMIZED, model, samples)


def _apart(runtime: str, model: onnx.ModelProto, samples: Samples) -> Answers:
    if not samples:
        return []
    said = ""
    # What models before it did to its process is not to be blamed on this one: a fresh one is asked as well.
    for _ in range(2):
        try:
            return apart.answers(runtime, model, list(samples))
        except apart.CrashedError as error:
            said = f"crashed: {error}"
    return [said] * len(samples)


def _answer(run: Callable[[], Outputs]) -> Outputs | str:
    try:
        return {name: np.asarray(array) for name, array in run().items()}
    except Exception as error:  # noqa: BLE001 - each runtime has its own
        return f"{type(error).__name__}: {error}"


OPTIMIZED = "ONNX Runtime, optimized"

RUNTIMES: dict[str, Callable[[onnx.ModelProto, Samples], Answers]] = {
    "reference": reference,
    "ONNX Runtime": onnxruntime,
    "OpenVINO": openvino,
    OPTIMIZED: onnxruntime_optimized,
}
