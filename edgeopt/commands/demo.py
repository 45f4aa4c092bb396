"""`edgeopt demo`: one search on the built-in sample, and what it gained."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt import units
from edgeopt.commands.report.request import ReportRequest
from edgeopt.events import Emit
from edgeopt.options import option

if TYPE_CHECKING:
    from edgeopt.hw.device import Device
    from edgeopt.pipeline.outcome import Outcome

_TIME_LIMIT_S = 45.0


class DemoRequest(msgspec.Struct, frozen=True):
    out: Annotated[Path, option("Bundle to write.", "-o", "--out")] = Path("demo.edgeopt")


class DemoGain(msgspec.Struct, frozen=True):
    """A figure before and after, better or worse."""

    what: str
    before: str
    after: str
    why: str


class Demo(msgspec.Struct, frozen=True):
    model: str
    device: "Device"
    outcome: "Outcome"
    gains: tuple[DemoGain, ...]
    losses: tuple[DemoGain, ...]
    """Figures that became worse."""
    accuracy: str
    """Accuracy of the result, as a sentence."""
    report: str
    """Path of the report."""


def demo(request: DemoRequest, emit: Emit) -> Demo:
    """Optimizes the sample, loads the bundle, says what was gained, and writes the report of all that."""
    from edgeopt.bundle.runtime.session import load
    from edgeopt.commands.optimize import optimize
    from edgeopt.commands.report.report import report
    from edgeopt.data import demo as samples
    from edgeopt.hw.probe import probe

    out = request.out
    device = probe()
    outcome = optimize(samples.MODEL, out, data=samples.DATA, time_limit_s=_TIME_LIMIT_S, fresh=True, emit=emit)
    with load(out) as session:
        backend = session.backend
    page = report(ReportRequest(out, out.with_name(f"{out.stem}-report.html")), emit)
    gains, losses = gains_and_losses(outcome, backend)
    where = str(Path(page.path).absolute())
    return Demo(str(samples.MODEL), device, outcome, gains, losses, accuracy_sentence(outcome), where)


def gains_and_losses(outcome: "Outcome", backend: str) -> tuple[tuple[DemoGain, ...], tuple[DemoGain, ...]]:
    """Returns the figures that improved and the figures that got worse; unchanged ones are in neither."""
    changes = list(_changes(outcome, backend))
    better = tuple(gain for gain, before, after in changes if after < before)
    worse = tuple(gain for gain, before, after in changes if after > before)
    return better, worse


def _changes(outcome: "Outcome", backend: str) -> Iterator[tuple[DemoGain, float, float]]:
    """Yields each figure, with its numbers before and after; less is better."""
    proof, winner = outcome.proof, outcome.winner
    variants = {v.name: v for v in outcome.variants}
    made, source = variants.get(winner.variant), variants["source"]
    title = made.title if made is not None else winner.variant
    after = f"{proof.latency_ms:.3f} ms ({proof.speedup})"
    # By the ratio, as times of two moments are not comparable.
    pace = 1 / proof.speedup.median if winner != outcome.baseline else 1.0
    yield DemoGain("latency", f"{proof.baseline_ms:.3f} ms", after, f"{title}, on {backend}"), 1.0, pace
    cleaned = [v for v in outcome.variants if v.name == "cleaned" and v.is_of(winner)]
    ledger = [e for v in cleaned for e in v.ledger if e.applied and not e.rolled_back]
    if ledger and winner.variant != "source":
        biggest = max(ledger, key=lambda e: e.nodes_before - e.nodes_after)
        why = f"most by the pass {biggest.pass_name}: {biggest.nodes_before} to {biggest.nodes_after}"
        yield _counted("nodes", ledger[0].nodes_before, ledger[-1].nodes_after, str, why)
    if made is not None and made.size_bytes and source.size_bytes:
        yield _counted("model size", source.size_bytes, made.size_bytes, units.size, title)
    before, after_memory = proof.baseline_memory, proof.memory
    if before and after_memory and before.added_bytes and after_memory.added_bytes:
        why = "peak of runtime and model, above an empty process"
        yield _counted("memory added", before.added_bytes, after_memory.added_bytes, units.size, why)


def _counted(
    what: str, before: int, after: int, written: Callable[[int], str], why: str
) -> tuple[DemoGain, float, float]:
    """Returns a figure with its numbers; numbers that are written alike count as the same."""
    shown = written(before), written(after)
    return DemoGain(what, *shown, why), before, before if shown[0] == shown[1] else after


def accuracy_sentence(outcome: "Outcome") -> str:
    from edgeopt.graph.accuracy import agreement

    proof = outcome.proof
    aside = " set aside" if proof.set_aside else ""
    return (
        f"Accuracy: {agreement(proof.accuracy_db, against=True)} on {proof.samples} samples{aside}; the floor is "
        f"{outcome.floor_db:g} dB."
    )
