"""The variants in one form: every layer that takes it, for each backend that computes it faster."""

import time

from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.graph.ledger import LedgerEntry, Refusal
from edgeopt.quant.forms import Form, form_named
from edgeopt.quant.measured.planning.entry import GROUPED, WEIGHTS_ALONE
from edgeopt.quant.measured.study import Study
from edgeopt.quant.measured.timing.courses import GROUP_SIZES, GROUPS, OPENVINO, OptionValue
from edgeopt.quant.measured.work import why_none
from edgeopt.quant.settings import QuantSettings
from edgeopt.search.making.plans import Planned, Plans
from edgeopt.search.making.studying import put, studied
from edgeopt.search.making.task import Task


def form_all(task: Task, name: str) -> Plans:
    """Writes a model for each backend; raises ModelError where no layer takes the form on any."""
    begun = time.monotonic()
    form = form_named(name)
    study = studied(task, {})
    if form.needs_ranges:
        study.calibrated()
    found: list[Planned] = []
    reasons: dict[str, None] = {}
    for backend in task.backends:
        fitting = study.forms(backend, (form,), **_changes(form))
        if not fitting:
            reasons[why_none(study, form, backend, **_changes(form))] = None
            continue
        try:
            found.append(_written(task, study, form, backend, tuple(fitting), begun))
        except EdgeoptError as error:
            reasons[f"{backend}: {error.message.rstrip('.')}"] = None
    if not found:
        raise ModelError(f"No layer supports this scheme: {'; '.join(reasons)}.")
    return Plans(tuple(found), ())


def _written(task: Task, study: Study, form: Form, backend: str, layers: tuple[str, ...], begun: float) -> Planned:
    choices = dict.fromkeys(layers, form.name)
    written = study.written(choices, backend, **_changes(form))
    out = put(task, written.model, backend)
    context = study.context(backend)
    ledger = LedgerEntry(
        form.name,
        applied=(*study.known.changes, *written.changes),
        refused=tuple(
            Refusal(layer.reason or form.fits(layer, context), layer.nodes)
            for layer in study.layers
            if layer.name not in layers
        ),
        nodes_before=len(list(study.model.graph)),
        nodes_after=len(list(written.model.graph)),
        seconds=time.monotonic() - begun,
    )
    return Planned(
        backend,
        _options(form, backend),
        str(out),
        (ledger,),
        {form.name: list(layers)},
        written.trace.context.settings,
        study.recorded(choices, written.trace),
    )


def _changes(form: Form) -> dict[str, int]:
    """Blocks into which the groups of every size fit, so that one file serves all of them."""
    return {"block_size": max(QuantSettings().block_size, *GROUP_SIZES)} if form.name == GROUPED else {}


def _options(form: Form, backend: str) -> dict[str, OptionValue]:
    """For compressed weights, OpenVINO also quantizes activations unless an option forbids it."""
    return {GROUPS: 0} if form.name in WEIGHTS_ALONE and backend == OPENVINO else {}
