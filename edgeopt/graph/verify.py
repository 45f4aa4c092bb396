"""The proof that a rewritten model still is the source model: both run on the same samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeopt.backends.base import Array, Backend, Options
from edgeopt.graph.accuracy import (
    Accuracy,
    OutputAccuracy,
    compare_outputs,
    lower_bound_db,
    signal_to_noise_db,
    snr_lower_bound,
)
from edgeopt.graph.feeds import generate_feeds

__all__ = [
    "Accuracy",
    "OutputAccuracy",
    "compare_outputs",
    "generate_feeds",
    "lower_bound_db",
    "run_all",
    "signal_to_noise_db",
    "snr_lower_bound",
    "verify_models",
]


def verify_models(
    source_path: Path,
    candidate_path: Path,
    feeds: Sequence[Mapping[str, Array]],
    backend: Backend,
    options: Options | None = None,
) -> Accuracy:
    """Runs both models on the same backend and compares what they give."""
    return compare_outputs(
        run_all(source_path, feeds, backend, options), run_all(candidate_path, feeds, backend, options)
    )


def run_all(
    path: Path, feeds: Sequence[Mapping[str, Array]], backend: Backend, options: Options | None = None
) -> list[dict[str, Array]]:
    """A model's outputs on every sample."""
    session = backend.load(path, options or {})
    try:
        return [session.run(sample) for sample in feeds]
    finally:
        session.close()
