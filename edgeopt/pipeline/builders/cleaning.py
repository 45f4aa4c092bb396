"""Exact variants: the passes of the profile, and the lowerings into operators of one runtime."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends import runtime_of
from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import Pass
from edgeopt.graph.passes.cleaning import skip_padding
from edgeopt.graph.pipeline import ROUNDS, run_pipeline
from edgeopt.measure.exactness.inputs import padded_cases, taken_inputs
from edgeopt.measure.exactness.proof import Source, SourceCheck
from edgeopt.measure.exactness.runtimes import also_loading, first_opened
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.profiles import TargetProfile
from edgeopt.workers.isolated_backend import IsolatedBackends
from edgeopt.workspace import temporary_folder

PASSES, LOWERINGS = "passes", "lowerings"
"""Parameters of the steps `cleaned` and `lowered`."""
NOTHING = "No exact rewrite applies to this graph."
_MAX_CHECKED = 4


def clean(task: BuildTask) -> Ledger:
    """Writes the cleaned model; raises ModelError if no pass changed anything in any runtime."""
    ledger = apply_proved_passes(task, task.source, only=task.step.listed(PASSES))
    if not changed(ledger) and not wrong_elsewhere(ledger):
        raise ModelError(NOTHING)
    return ledger


def apply_proved_passes(
    task: BuildTask,
    source: Path,
    *,
    only: Iterable[str] = (),
    passes: Sequence[Pass] | None = None,
    rounds: int = ROUNDS,
) -> Ledger:
    """Applies the passes, each checked against the source model, and writes the model if it changed."""
    model = load(source)
    feeds = [task.check_samples.feeds(k) for k in range(min(len(task.check_samples), _MAX_CHECKED))]
    extra = padded_cases(model.ir, feeds[0]) if skip_padding.PASS.name in only else []
    folder = temporary_folder("proof")
    try:
        opened = first_opened(source)
        inputs = taken_inputs(model, opened.inputs, {})
        # Whether each runtime loads the result is tested in the race, where it is a candidate for each.
        check = SourceCheck.on(Source(model.ir, source), opened, inputs, feeds, extra, folder=folder)
    except ModelError as error:
        folder.cleanup()
        raise ModelError(
            f"No installed runtime can run the model, so no rewrite can be checked. {error.message}"
        ) from error
    with closing(check), closing(IsolatedBackends()) as isolated:
        others = also_loading(source, check.backend, isolated)
        check.prove_in(tuple(one for one in others if runs_in(one.name, task.backends)))
        wrong_in: dict[str, str] = {}

        def note_where(guilty: str) -> None:
            for other in check.wrong_in:
                wrong_in[guilty] = other.backend.name

        result = run_pipeline(
            model,
            only=only,
            passes=passes,
            rounds=rounds,
            check=check.why_wrong,
            on_failure=note_where,
        )
    if changed(result.ledger):
        save(result.model_ir, task.out)
    return tuple(
        msgspec.structs.replace(one, wrong_in=wrong_in.get(one.pass_name, "") if one.rolled_back else "")
        for one in result.ledger
    )


def runs_in(runtime: str, backends: Sequence[str]) -> bool:
    """Whether one of these backends computes with the same runtime; none listed: all do."""
    family = runtime.partition("-")[0]
    return not backends or any(name.partition("-")[0] == family for name in backends)


def wrong_elsewhere(ledger: Ledger) -> set[str]:
    """Returns the runtimes that compute a wrong result with a pass that was rolled back."""
    return {entry.wrong_in for entry in ledger if entry.wrong_in}


def changed(ledger: Ledger) -> bool:
    """Whether a change was applied and not rolled back."""
    return any(entry.applied and not entry.rolled_back for entry in ledger)


NAME = "lowered"
NONE_LISTED = "the profile lists no lowerings for its backends"


@dataclass(frozen=True, slots=True)
class Lowered:
    """One variant: the backends of one runtime for which the profile lists the same."""

    backends: tuple[str, ...]
    lowerings: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"operators specific to {_runtime(self.backends[0])}"


def lowered_variants(profile: TargetProfile) -> tuple[Lowered, ...]:
    """Returns the variants to build, in the order of the backends."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for backend in profile.backends.order:
        if names := profile.lowerings.get(backend, ()):
            found.setdefault((_runtime(backend), names), []).append(backend)
    return tuple(Lowered(tuple(backends), names) for (_, names), backends in found.items())


def lowerings_of(backend: str) -> tuple[Pass, ...]:
    """Returns the rewrites to operators that the runtime behind a backend supports."""
    from edgeopt.backends.onnxruntime import lowering as onnxruntime
    from edgeopt.backends.openvino import lowering as openvino

    runtime = runtime_of(backend)
    if runtime == "openvino":
        return openvino.lowerings()
    return onnxruntime.lowerings() if runtime == "onnxruntime" else ()


def lower(task: BuildTask) -> Ledger:
    """Writes the lowered model; raises ModelError with the reasons if nothing applied."""
    known = {one.name: one for one in lowerings_of(task.backends[0])}
    passes = tuple(known[name] for name in task.step.listed(LOWERINGS))
    # Runs once, in the order of the profile: a second round would find what the first one left, at the same cost.
    ledger = apply_proved_passes(task, task.base, passes=passes, only=task.step.listed(LOWERINGS), rounds=1)
    if not changed(ledger):
        raise ModelError(f"No lowering applied: {_reasons(ledger)}.")
    return ledger


def _runtime(backend: str) -> str:
    return "OpenVINO" if runtime_of(backend) == "openvino" else "ONNX Runtime"


def _reasons(ledger: Ledger) -> str:
    """Formats why the passes changed nothing: each pass with its reasons, then the passes without a match."""
    reasons = {
        entry.pass_name: "; ".join(
            [*([entry.rolled_back] if entry.rolled_back else []), *(one.reason for one in entry.refused)]
        )
        for entry in ledger
    }
    silent = [name for name, text in reasons.items() if not text]
    lines = [f"{name}: {text}" for name, text in reasons.items() if text]
    return ". ".join([*lines, *([f"No match for {', '.join(silent)}"] if silent else [])])
