"""The plan for a device that is not here, as `edgeopt optimize --device` tells it: predicted, not measured."""

from typing import Any

import msgspec

from edgeopt.search.outcome import Candidate


class Latency(msgspec.Struct, frozen=True):
    predicted_ms: float | None = None


class Planned(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: str
    reason: str
    latency: Latency | None = None
    accuracy_db: float | None = None

    @property
    def predicted_ms(self) -> float | None:
        return self.latency.predicted_ms if self.latency is not None else None


class Plan(msgspec.Struct, frozen=True):
    """What the page reads of `edgeopt.commands.predict.records.Ahead`."""

    bundle: str
    device: str
    target: str
    summary: str
    basis: str
    candidates: tuple[Planned, ...]
    finish: tuple[str, ...] = ()
    speedup: float | None = None
    warnings: tuple[str, ...] = ()


def read_plan(data: dict[str, Any]) -> Plan:
    """Raises `msgspec.ValidationError` for what is no plan."""
    return msgspec.convert(data, Plan)


def story(plan: Plan) -> str:
    """Its basis, notes, path and next steps: a line each."""
    return "\n".join([plan.basis, *plan.warnings, f"The bundle is {plan.bundle}.", *plan.finish])
