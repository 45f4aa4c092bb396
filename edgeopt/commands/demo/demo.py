"""The demo: one search on the built-in sample, and what it gained, told in a table."""

from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.bundle.runtime.session import load
from edgeopt.commands.demo.request import Request
from edgeopt.commands.report.make import report
from edgeopt.commands.report.request import Request as ReportRequest
from edgeopt.data import demo as samples
from edgeopt.events import Emit
from edgeopt.graph.accuracy import decibels
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.search.optimize import optimize
from edgeopt.search.outcome import Outcome

_TIME_LIMIT_S = 45.0


class Gain(msgspec.Struct, frozen=True):
    what: str
    before: str
    after: str
    why: str


class Demo(msgspec.Struct, frozen=True):
    model: str
    device: Device
    outcome: Outcome
    gains: tuple[Gain, ...]
    report: str
    """The page that tells all of it."""


def demo(request: Request, emit: Emit) -> Demo:
    """Optimizes the sample, loads the bundle, says what was gained, and writes the report of all that."""
    out = request.out
    device = probe()
    outcome = optimize(samples.MODEL, out, data=samples.DATA, time_limit_s=_TIME_LIMIT_S, fresh=True, emit=emit)
    with load(out) as session:
        backend = session.backend
    page = report(ReportRequest(out, out.with_name(f"{out.stem}-report.html")), emit)
    gains = tuple(_gains(outcome, backend))
    return Demo(str(samples.MODEL), device, outcome, gains, str(Path(page.path).absolute()))


def _gains(outcome: Outcome, backend: str) -> list[Gain]:
    proof, winner = outcome.proof, outcome.winner
    variants = {v.name: v for v in outcome.variants}
    made, source = variants[winner.variant], variants["source"]
    gains = [
        Gain(
            "latency",
            f"{proof.baseline_ms:.3f} ms",
            f"{proof.latency_ms:.3f} ms ({proof.speedup})",
            f"{made.title}, on {backend}",
        )
    ]
    cleaned = [v for v in outcome.variants if v.name == "cleaned" and v.is_of(winner)]
    ledger = [e for v in cleaned for e in v.ledger if e.applied and not e.rolled_back]
    if ledger and winner.variant != "source":
        biggest = max(ledger, key=lambda e: e.nodes_before - e.nodes_after)
        gains.append(
            Gain(
                "nodes",
                str(ledger[0].nodes_before),
                str(ledger[-1].nodes_after),
                f"most by the pass {biggest.pass_name}: {biggest.nodes_before} to {biggest.nodes_after}",
            )
        )
    if made.size_bytes and source.size_bytes:
        gains.append(
            Gain(
                "model size",
                units.size(source.size_bytes),
                units.size(made.size_bytes),
                made.title,
            )
        )
    before, after = proof.baseline_memory, proof.memory
    if before and after and before.peak_bytes and after.peak_bytes:
        gains.append(
            Gain(
                "peak memory",
                units.size(before.peak_bytes),
                units.size(after.peak_bytes),
                "of the whole process, runtime included",
            )
        )
    accuracy = decibels(proof.accuracy_db)
    gains.append(
        Gain(
            "accuracy",
            "the source model",
            accuracy,
            f"floor {outcome.floor_db:g} dB, on {proof.samples} samples{' set aside' if proof.set_aside else ''}",
        )
    )
    return gains
