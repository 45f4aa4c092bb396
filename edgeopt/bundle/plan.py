"""The plan of a deployment: what runs, and the steps that make it from the source model.

A search, a quantization and a prediction each end with a plan; `deployment.toml` holds it, and a replay builds it
again. What was proved of it comes in when the bundle is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.backends.intended import metadata_value
from edgeopt.bundle.deployment import (
    Budget,
    Deployment,
    Evidence,
    Predicted,
    Processing,
    Run,
    SourceModel,
    Step,
    machine_of,
    six_digits,
    tensor_of,
)
from edgeopt.graph.import_proof import LIMITS_KEY, InputLimits, decoded_limits
from edgeopt.hw.device import Device, fingerprint
from edgeopt.version import __version__

NOT_PROVED = "not proved yet"


IMPORTED = ".imported"
"""Stands between the name of a bundle and the suffix of the model that an import wrote for it."""


def model_name(file: str) -> str:
    """Returns what the model in a bundle is called, by the name of its source file."""
    return (file.rpartition(".")[0] or file).removesuffix(IMPORTED) or file


@dataclass(frozen=True, slots=True)
class Plan:
    source: SourceModel
    target: str
    """The target profile that it was made with."""
    run: Run
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    steps: Sequence[Step] = ()
    limits: InputLimits = field(default_factory=dict)
    """The sizes that the source model was proved for, where it was imported."""
    processing: Processing | None = None
    budget: Budget | None = None
    record: bytes | None = None
    """Calibration results, so that a replay needs no data."""

    def deployment(
        self,
        device: Device,
        summary: str = NOT_PROVED,
        evidence: Evidence | None = None,
        predicted: Predicted | None = None,
    ) -> Deployment:
        """The deployment profile; `device`: the one that it is proved on, or predicted for."""
        return on_device(
            Deployment(
                name=model_name(self.source.name),
                created=now(),
                edgeopt=__version__,
                target=self.target,
                summary=summary,
                source=self.source,
                run=self.run,
                inputs=[tensor_of(each, self.limits) for each in self.inputs],
                outputs=[tensor_of(each) for each in self.outputs],
                steps=list(self.steps),
                processing=self.processing,
                budget=self.budget,
                evidence=evidence,
                predicted=predicted,
            ),
            device,
        )


def limits_in(model: Path) -> InputLimits:
    """Returns the sizes that `edgeopt import` proved a model for, from its metadata; empty for other models."""
    return decoded_limits(metadata_value(model, LIMITS_KEY))


def on_device(deployment: Deployment, device: Device, **changed: object) -> Deployment:
    """The same, proved on this device."""
    return msgspec.structs.replace(
        deployment,
        device=fingerprint(device),
        machine=machine_of(device),
        runtimes={runtime.name: runtime.version for runtime in device.runtimes},
        **changed,
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def quantized_step(
    recipe: str, calibration_count: int, settings: msgspec.Struct, schemes: Mapping[str, Sequence[str]]
) -> Step:
    """`schemes`: the layers of each."""
    parameters = {"calibration_samples": calibration_count, **msgspec.structs.asdict(settings)}
    return Step(recipe, parameters, {scheme: list(layers) for scheme, layers in schemes.items()})


def by_scheme(choices: Mapping[str, str]) -> dict[str, list[str]]:
    """The layers of each scheme, from the scheme of each layer."""
    schemes: dict[str, list[str]] = {}
    for layer, scheme in choices.items():
        schemes.setdefault(scheme, []).append(layer)
    return schemes


class Ratio(Protocol):
    """A speed-up with its interval."""

    @property
    def median(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def rounds(self) -> int: ...


def evidence_of(
    verdict: str,
    baseline: str,
    times_ms: tuple[float, float],
    speedup: Ratio,
    *,
    accuracy_db: float,
    floor_db: float,
    samples: int,
) -> Evidence:
    """`times_ms`: of the baseline and of the bundle."""
    return Evidence(
        verdict=verdict,
        baseline=baseline,
        baseline_ms=six_digits(times_ms[0]),
        latency_ms=six_digits(times_ms[1]),
        speedup=six_digits(speedup.median),
        speedup_low=six_digits(speedup.low),
        speedup_high=six_digits(speedup.high),
        rounds=speedup.rounds,
        accuracy_db=round(accuracy_db, 1),
        floor_db=floor_db,
        samples=samples,
    )
