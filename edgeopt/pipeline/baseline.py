"""Baseline of all candidates: the source model with default options, as users run it now."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.backends.base import Available, full_precision
from edgeopt.errors import MissingExtraError, ModelError, TrialError
from edgeopt.measure.contender import Contender
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.runner import TrialRunner


@dataclass(frozen=True, slots=True)
class Baseline:
    candidate: Candidate
    contender: Contender


def plain(backend: str) -> Candidate:
    """Returns the candidate of a user without edgeopt: the model as it came, in a runtime's defaults."""
    return Candidate("source", backend)


def baseline_order(backends: Sequence[str]) -> list[str]:
    """Sorts processors first, and ONNX Runtime first among them: all accuracy is judged by the outputs of the
    baseline.

    An accelerator may compute floats in fewer bits; it must not be its own judge.
    """
    return sorted(backends, key=lambda name: (name not in PROCESSOR, not name.startswith("onnxruntime")))


def first_running(runner: TrialRunner, model: Path, backends: Sequence[str]) -> Baseline:
    """Returns the source model in the first runtime that runs it."""
    reasons, extras = [], []
    for name in baseline_order(backends):
        found = backend_named(name).available()
        if not isinstance(found, Available):
            extras.append(found.extra or name)
            continue
        try:
            return Baseline(plain(name), runner.enter("baseline", name, model))
        except TrialError as error:
            reasons.append(f"{name}: {error.message}")
    if not reasons:
        raise MissingExtraError(extras[0] if extras else "cpu", "Optimizing a model")
    raise ModelError(
        f"No installed runtime can run the model. {' '.join(reasons)}",
        "Check the model in its own runtime first. Models with custom operators cannot be optimized, "
        "because a bundle holds no libraries; edgeopt bench --custom-ops measures them.",
    )


@contextmanager
def judge_for(runner: TrialRunner, baseline: Contender, backend: str, model: Path) -> Iterator[Contender]:
    """Yields the contender whose outputs are the reference: the baseline, or its runtime in full precision.

    Speed is judged by the defaults of the runtime. Raises TrialError if the runtime fails in full precision.
    """
    options = full_precision(backend)
    if not options:
        yield baseline
        return
    judge = runner.enter("reference", backend, model, dict(options))
    try:
        yield judge
    finally:
        judge.close()
