"""What both makers of quantized variants begin with, a study of the cleaned model, and how they put files away."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.judging.metric import Labels
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples
from edgeopt.errors import ModelError
from edgeopt.quant.measured.given import Given
from edgeopt.quant.measured.records import SampleUse
from edgeopt.quant.measured.study import Study, begin
from edgeopt.quant.recorded import raised
from edgeopt.search.making.inspect import describe
from edgeopt.search.making.task import Task

if TYPE_CHECKING:
    import onnx_ir as ir

# With fewer to check, the plan and its proof share them.
_FEWEST_TO_PART = 6


def studied(task: Task, reference: Mapping[int, Mapping[str, Array]]) -> Study:
    """`reference`: what the source answers to those samples on which something is judged."""
    from edgeopt.graph.model import load

    model = raised(load(task.base).ir)
    folder = folder_of(task) / "study"
    return begin(model, given_by(task), reference, task.settings, folder)


def given_by(task: Task) -> Given:
    """Of the samples that check, the first two thirds plan, and the rest tries the plan."""
    from edgeopt.graph.model import load

    samples = samples_of(task)
    count, first, check = len(samples), len(samples) - len(task.check_samples), len(task.check_samples)
    held = check // 3 if check >= _FEWEST_TO_PART else 0
    plan_on = range(first, count - held)
    prove = range(count - held, count) if held else plan_on
    calibrate = range(len(task.calibration) if task.calibration is not None else 0)
    use = SampleUse(count, len(calibrate), len(plan_on), len(prove), shared=not held)
    inputs = describe(load(task.source)).inputs
    return Given(inputs, samples, _labels(task), calibrate, plan_on, prove, use, Levels(samples))


def packed(labels: Labels | None) -> bytes:
    """Labels, or whatever rows the user has instead, on the way to another process."""
    file = io.BytesIO()
    if labels is not None:
        np.save(file, labels, allow_pickle=False)
    return file.getvalue()


def _labels(task: Task) -> Labels | None:
    found = task.planning.labels if task.planning is not None else b""
    return np.load(io.BytesIO(found), allow_pickle=False) if found else None


def samples_of(task: Task) -> Samples:
    """Those that calibrate and those that check; the ones that prove are not among them."""
    if task.samples is None:
        raise ModelError("Quantizing needs data.", "Give some.")
    return task.samples


def folder_of(task: Task) -> Path:
    """Where it works; beside what it makes, as that is deleted with it."""
    folder = task.out.parent / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(task: Task, model: "ir.Model", backend: str) -> Path:
    """Writes a model into a folder of its own, as a bundle takes all that lies beside it."""
    from edgeopt.graph.model import save

    out = task.out.parent / backend / task.out.name
    out.parent.mkdir(parents=True)
    save(model, out)
    return out
