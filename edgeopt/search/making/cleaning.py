"""The `cleaned` variant: the graph's exact passes, with the numbers checked in every runtime."""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import Pass
from edgeopt.graph.passes.cleaning import skip_padding
from edgeopt.graph.pipeline import ROUNDS, run_pipeline
from edgeopt.measure.exactness.inputs import padded_cases, source_file, taken_inputs
from edgeopt.measure.exactness.proof import Source, SourceCheck
from edgeopt.measure.exactness.runtimes import also_loading, first_opened
from edgeopt.measure.isolated_backend import Apart
from edgeopt.search.making.task import Task

NOTHING = "No exact rewrite applies to this graph."
_MOST_CHECKED = 4


def clean(task: Task) -> Ledger:
    """Writes the cleaned model; raises ModelError when no pass changed anything in any runtime."""
    ledger = proved(task, task.source, only=task.passes or ())
    if not changed(ledger) and not wrong_elsewhere(ledger):
        raise ModelError(NOTHING)
    return ledger


def proved(
    task: Task,
    source: Path,
    *,
    only: Iterable[str] = (),
    passes: Sequence[Pass] | None = None,
    rounds: int = ROUNDS,
) -> Ledger:
    """The effect of these passes, compared with the source model; a changed model is written."""
    model = load(source)
    feeds = [task.check_samples.feeds(k) for k in range(min(len(task.check_samples), _MOST_CHECKED))]
    extra = padded_cases(model.ir, feeds[0]) if skip_padding.PASS.name in only else []
    folder = tempfile.TemporaryDirectory(prefix="edgeopt-proof-")
    try:
        path = source_file(model, Path(folder.name))
        opened = first_opened(path)
        inputs = taken_inputs(model, opened.inputs, {})
        # Which runtimes load the result is seen in the race, where each runs it as a candidate of its own.
        check = SourceCheck.on(Source(model.ir, path), opened, inputs, feeds, extra, folder=folder)
    except ModelError as error:
        folder.cleanup()
        raise ModelError(
            f"No installed runtime can run the model, so no rewrite can be checked. {error.message}"
        ) from error
    with closing(check), closing(Apart()) as apart:
        others = also_loading(path, check.backend, apart)
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
    """The backends without which more passes would have stayed."""
    return {entry.wrong_in for entry in ledger if entry.wrong_in}


def changed(ledger: Ledger) -> bool:
    """Something was applied and stayed."""
    return any(entry.applied and not entry.rolled_back for entry in ledger)
