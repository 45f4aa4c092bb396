"""Runs the passes in order and records the ledger; unproved changes are rolled back."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from edgeopt import events
from edgeopt.errors import EdgeoptError, UsageError, VerificationError
from edgeopt.graph.copies import Copies
from edgeopt.graph.ledger import Ledger, LedgerEntry, Refusal
from edgeopt.graph.model import Model
from edgeopt.graph.nodes import node_count, quiet, rare_collections
from edgeopt.graph.passes import Pass, PassContext, standard_passes
from edgeopt.graph.shapes.infer import forget_claims
from edgeopt.graph.structure import Signature, fault, infer_shapes, keep_declared_shapes, signature
from edgeopt.nearest import near

if TYPE_CHECKING:
    import onnx_ir as ir

ROUNDS = 4  # one pass enables another; most models need two rounds


@dataclass(frozen=True, slots=True)
class PipelineResult:
    model_ir: "ir.Model"
    ledger: Ledger
    steps: "tuple[PipelineStep, ...]" = ()
    """Model after each pass, if requested, because each may contain weights of its own."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A single run of a pass: its ledger entry, and the model after it."""

    entry: LedgerEntry
    model_ir: "ir.Model"


@dataclass(frozen=True, slots=True)
class NumericError:
    """Error of the outputs relative to the source model."""

    snr_db: float
    max_abs: float


def run_pipeline(  # noqa: PLR0913 - all but the model is optional and given by name
    model: Model,
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    also: Iterable[str] = (),
    check: "Callable[[ir.Model], str | None] | None" = None,
    measure: "Callable[[ir.Model], NumericError] | None" = None,
    on_failure: Callable[[str], None] | None = None,
    emit: events.Emit = events.ignore,
    passes: Sequence[Pass] | None = None,
    context: PassContext | None = None,
    rounds: int = ROUNDS,
    keep_steps: bool = False,
) -> PipelineResult:
    """Applies passes, by default the standard ones, to a copy of the model.

    The structure is checked after every pass. `check` compares the results once, at the end; if they are wrong,
    the responsible passes are found by bisection, rolled back, and recorded in the ledger; `on_failure` is called
    with the name of each. `measure` is called for every pass that changed something.
    """
    context = context or PassContext()
    chosen = select(standard_passes() if passes is None else passes, only, skip, also)
    source = model.ir.clone()
    forget_claims(source)
    with quiet():
        infer_shapes(source)
    before = signature(source)
    undone: list[LedgerEntry] = []
    steps = _run(chosen, source, before, context, emit, rounds)
    while check is not None:
        emit(events.Progress("verify", "comparing results with the source model"))
        models = [source, *(step.model_ir for step in steps)]
        reason = check(models[-1])
        if reason is None:
            break
        place = _first_wrong(models, check)
        guilty = next(p for p in chosen if p.name == steps[place - 1].entry.pass_name)
        reason = check(models[place]) or reason
        if on_failure is not None:
            on_failure(guilty.name)
        undone.append(_rolled_back(guilty, node_count(models[place - 1]), reason, emit))
        chosen = tuple(p for p in chosen if p is not guilty)
        steps = _run(chosen, source, before, context, emit, rounds)
    result = _result(source, steps, undone, measure)
    return replace(result, steps=tuple(steps)) if keep_steps else result


def select(
    passes: Sequence[Pass], only: Iterable[str] = (), skip: Iterable[str] = (), also: Iterable[str] = ()
) -> tuple[Pass, ...]:
    """Returns the passes with these names, in the order in which they run; raises UsageError for unknown names."""
    names = [p.name for p in passes]
    only, skip, also = tuple(only), tuple(skip), tuple(also)
    for name in (*only, *skip, *also):
        if name not in names:
            meant = near(name, names, alike=0.0)[0]
            raise UsageError(
                f"There is no pass '{name}'; did you mean '{meant}'?", "`edgeopt passes` lists all of them."
            )
    chosen = {p.name for p in passes if (p.name in only if only else not p.on_request)} | set(also)
    return tuple(p for p in passes if p.name in chosen - set(skip))


@rare_collections()
def _run(
    passes: Sequence[Pass],
    source: "ir.Model",
    before: Signature,
    context: PassContext,
    emit: events.Emit,
    rounds: int,
) -> list[PipelineStep]:
    """Runs all passes in rounds, until the model no longer changes.

    A pass runs again only on a model that it has not seen. Its refusals are those of its last run.
    """
    steps: list[PipelineStep] = []
    context = replace(context, copy=Copies().of)
    current, version = source, 0
    seen: dict[str, int] = {}
    refused: dict[str, tuple[Refusal, ...]] = {}
    for number in range(rounds):
        for position, one in enumerate(passes):
            if seen.get(one.name) == version:
                continue
            emit(events.Progress("passes", one.name, position, len(passes)))
            step = _apply(one, current, before, context)
            refused[one.name] = step.entry.refused
            did = bool(step.entry.applied) and step.entry.rolled_back is None
            if number == 0 or did or step.entry.rolled_back:
                steps.append(step)
            version += did
            if not did:
                seen[one.name] = version
            if step.entry.rolled_back is not None:
                passes = [p for p in passes if p is not one]
            current = step.model_ir
        if all(seen.get(one.name) == version for one in passes):
            break
    return [_with_refusals(step, refused) for step in steps]


def _with_refusals(step: PipelineStep, refused: "dict[str, tuple[Refusal, ...]]") -> PipelineStep:
    """Sets the refusals of a pass's last run in its first entry; its later entries repeat none."""
    last = refused.pop(step.entry.pass_name, ())
    return replace(step, entry=msgspec.structs.replace(step.entry, refused=last))


def _rolled_back(guilty: Pass, nodes: int, why: str, emit: events.Emit) -> LedgerEntry:
    reason = f"rolled back: it changes the results ({why})"
    emit(events.Log("warning", f"The pass '{guilty.name}' was {reason}."))
    return LedgerEntry(
        guilty.name, nodes_before=nodes, nodes_after=nodes, rolled_back=reason, tolerance_db=guilty.tolerance_db
    )


def _apply(one: Pass, current: "ir.Model", before: Signature, context: PassContext) -> PipelineStep:
    """Runs one pass; if it raises or breaks the model, returns the model from before it and the reason."""
    start, nodes = time.perf_counter(), node_count(current)
    entry = LedgerEntry(one.name, nodes_before=nodes, nodes_after=nodes, tolerance_db=one.tolerance_db)
    try:
        result = one.apply(current, context)
        broken = fault(result.model, before) if result.applied else None
        if broken is None and result.applied:
            if not one.on_request:  # a requested pass may change them on purpose
                keep_declared_shapes(current, result.model)
            with quiet():
                infer_shapes(result.model)
    except Exception as error:  # noqa: BLE001 - rules come from libraries and users; one that fails must not take the model along
        message = error.message if isinstance(error, EdgeoptError) else f"{type(error).__name__}: {error}"
        reason = f"rolled back: it failed with {message}"
        return PipelineStep(_with(entry, start, rolled_back=reason), current)
    if broken is not None:
        return PipelineStep(
            _with(entry, start, rolled_back=f"rolled back: {broken}", refused=result.refused), current
        )
    if not result.applied:
        return PipelineStep(_with(entry, start, refused=result.refused), current)
    after = node_count(result.model)
    return PipelineStep(
        _with(
            entry,
            start,
            applied=result.applied,
            refused=result.refused,
            nodes_after=after,
            finite_only=one.finite_only,
            nonempty_only=result.nonempty_only,
        ),
        result.model,
    )


def _with(entry: LedgerEntry, start: float, **fields: object) -> LedgerEntry:
    return msgspec.structs.replace(entry, seconds=round(time.perf_counter() - start, 6), **fields)


def _first_wrong(models: "Sequence[ir.Model]", check: "Callable[[ir.Model], str | None]") -> int:
    """Returns the index of the first model that fails the check, by bisection."""
    if (reason := check(models[0])) is not None:
        raise VerificationError(
            f"The source model does not repeat its results: {reason}.",
            "Its results are probably random, so nothing can be proved about it.",
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
    steps: list[PipelineStep],
    undone: list[LedgerEntry],
    measure: "Callable[[ir.Model], NumericError] | None",
) -> PipelineResult:
    if measure is not None:
        steps = [_measured(step, measure) if step.entry.applied else step for step in steps]
    final = steps[-1].model_ir if steps else source
    return PipelineResult(final, (*(step.entry for step in steps), *undone))


def _measured(step: PipelineStep, measure: "Callable[[ir.Model], NumericError]") -> PipelineStep:
    error = measure(step.model_ir)
    entry = msgspec.structs.replace(step.entry, snr_db=error.snr_db, max_abs=error.max_abs)
    return replace(step, entry=entry)
