"""Runs the passes one after another and keeps the ledger; nothing that is not proved stays in the model."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from edgeopt import events
from edgeopt.errors import UsageError, VerificationError
from edgeopt.graph.ledger import Ledger, LedgerEntry
from edgeopt.graph.model import Model
from edgeopt.graph.passes import PASSES, Pass, PassContext
from edgeopt.graph.passes.base import node_count, quiet
from edgeopt.graph.structure import Signature, fault, infer_shapes, keep_declared_shapes, signature

if TYPE_CHECKING:
    import onnx_ir as ir

ROUNDS = 4  # one pass makes work for another; most models are done after the second round


@dataclass(frozen=True, slots=True)
class PipelineResult:
    model_ir: "ir.Model"
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Step:
    """One pass, run once: what it told, and the model after it."""

    entry: LedgerEntry
    model_ir: "ir.Model"


def run_pipeline(  # noqa: PLR0913 - all but the model is optional and given by name
    model: Model,
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    check: "Callable[[ir.Model], str | None] | None" = None,
    measure: "Callable[[ir.Model], float] | None" = None,
    emit: events.Emit = events.ignore,
    passes: Sequence[Pass] = PASSES,
    context: PassContext | None = None,
) -> PipelineResult:
    """Applies the passes to a model that stays as it is.

    Structure is checked after every pass. `check` judges the numbers once, at the end; where they are
    wrong, the guilty passes are found by bisection, rolled back, and the ledger says so. `measure` gives the
    signal-to-noise ratio in dB and is asked about every pass that changed something.
    """
    context = context or PassContext()
    chosen = select(passes, only, skip)
    source = model.ir.clone()
    with quiet():
        infer_shapes(source)
    before = signature(source)
    rolled_back: dict[str, str] = {}
    steps = _run(chosen, source, before, context, emit)
    while check is not None:
        emit(events.Progress("verify", "checking the numbers against the source model"))
        models = [source, *(step.model_ir for step in steps)]
        reason = check(models[-1])
        if reason is None:
            break
        guilty = _first_wrong(models, check)
        name = steps[guilty - 1].entry.pass_name
        rolled_back[name] = f"rolled back: it changes the results ({check(models[guilty]) or reason})"
        emit(events.Log("warning", f"The pass '{name}' was {rolled_back[name]}."))
        chosen = tuple(p for p in chosen if p.name != name)
        steps = _run(chosen, source, before, context, emit)
    return _result(source, steps, rolled_back, measure)


def select(passes: Sequence[Pass], only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Pass, ...]:
    """The passes that these names ask for, in the order in which they run; UsageError for unknown names."""
    names = [p.name for p in passes]
    only, skip = tuple(only), tuple(skip)
    for name in (*only, *skip):
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.0)[0]
            raise UsageError(
                f"There is no pass '{name}'; did you mean '{near}'?", "`edgeopt passes` lists all of them."
            )
    return tuple(p for p in passes if (p.name in only if only else not p.on_request) and p.name not in skip)


def _run(
    passes: Sequence[Pass], source: "ir.Model", before: Signature, context: PassContext, emit: events.Emit
) -> list[Step]:
    """All passes in rounds, until one changes nothing; later rounds are told where they changed something."""
    steps: list[Step] = []
    current = source
    for number in range(ROUNDS):
        changed = False
        failed = {step.entry.pass_name for step in steps if step.entry.rolled_back}
        for position, one in enumerate(passes):
            if one.name in failed:
                continue
            emit(events.Progress("passes", one.name, position, len(passes)))
            step = _apply(one, current, before, context)
            did = bool(step.entry.applied) and step.entry.rolled_back is None
            if number == 0 or did:
                steps.append(step)
            changed |= did
            current = step.model_ir
        if not changed:
            break
    return steps


def _apply(one: Pass, current: "ir.Model", before: Signature, context: PassContext) -> Step:
    """One pass; where it raises or leaves something broken, the model from before it and the reason."""
    start, nodes = time.perf_counter(), node_count(current)
    entry = LedgerEntry(one.name, nodes_before=nodes, nodes_after=nodes)
    try:
        result = one.apply(current, context)
        broken = fault(result.model, before) if result.applied else None
        if broken is None and result.applied:
            keep_declared_shapes(current, result.model)
            with quiet():
                infer_shapes(result.model)
    except Exception as error:  # noqa: BLE001 - rules come from libraries and users; one that fails must not take the model along
        reason = f"rolled back: it failed with {type(error).__name__}: {error}"
        return Step(_with(entry, start, rolled_back=reason), current)
    if broken is not None:
        return Step(_with(entry, start, rolled_back=f"rolled back: {broken}", refused=result.refused), current)
    if not result.applied:
        return Step(_with(entry, start, refused=result.refused), current)
    after = node_count(result.model)
    return Step(
        _with(entry, start, applied=result.applied, refused=result.refused, nodes_after=after), result.model
    )


def _with(entry: LedgerEntry, start: float, **fields: object) -> LedgerEntry:
    return msgspec.structs.replace(entry, seconds=round(time.perf_counter() - start, 4), **fields)


def _first_wrong(models: "Sequence[ir.Model]", check: "Callable[[ir.Model], str | None]") -> int:
    """The place of the first model that fails the check, by bisection."""
    if (reason := check(models[0])) is not None:
        raise VerificationError(
            f"The source model does not agree with itself: {reason}.",
            "Its results are probably random; nothing can be proved about such a model.",
        )
    right, wrong = 0, len(models) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if check(models[middle]) is None:
            right = middle
        else:
            wrong = middle
    return wrong


def _result(
    source: "ir.Model",
    steps: list[Step],
    rolled_back: dict[str, str],
    measure: "Callable[[ir.Model], float] | None",
) -> PipelineResult:
    if measure is not None:
        steps = [
            replace(s, entry=msgspec.structs.replace(s.entry, snr_db=measure(s.model_ir)))
            if s.entry.applied
            else s
            for s in steps
        ]
    nodes = node_count(source)
    undone = tuple(
        LedgerEntry(name, nodes_before=nodes, nodes_after=nodes, rolled_back=reason)
        for name, reason in rolled_back.items()
    )
    final = steps[-1].model_ir if steps else source
    return PipelineResult(final, (*(step.entry for step in steps), *undone))
