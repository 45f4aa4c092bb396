"""One model in several states: after each pass, or beside what another model has made of it."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import InputError
from edgeopt.events import Emit, Progress
from edgeopt.graph.analysis import Analysis, AnalysisOptions, NodeRow, OpTimes, TensorFacts
from edgeopt.graph.diff import GraphDiff, diff, match, partners

if TYPE_CHECKING:
    from edgeopt.commands.analyze.analyze import AnalyzedModel
    from edgeopt.graph.model import Model


class Revision(msgspec.Struct, frozen=True):
    title: str
    """The name of the file, or of the pass that made it."""
    what: str
    """Change that the pass made."""
    nodes: tuple[NodeRow, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    changes: GraphDiff | None = None
    """Changes from the revision before, or in the first revision, to the one after."""
    is_first: bool = False
    partners: tuple[tuple[str, str], ...] = ()
    """Pairs of nodes that correspond, of the revision before and of this one."""
    times: tuple[OpTimes, ...] = ()
    """Times of the nodes, if they were measured."""


class Revisions(msgspec.Struct, frozen=True):
    revisions: tuple[Revision, ...]


def of_two(first: "AnalyzedModel", second: "AnalyzedModel") -> tuple[Revision, ...]:
    matching = match(_typed(first).ir, _typed(second).ir)
    changes = diff(matching)
    return (
        _revision(first.analysis, first.analysis.name, "", changes, is_first=True),
        _revision(second.analysis, second.analysis.name, "", changes, partners=partners(matching)),
    )


def of_passes(source: "AnalyzedModel", options: AnalysisOptions, emit: Emit) -> tuple[Revision, ...]:
    """Returns the source, and the model after each exact rewrite that changed something."""
    from edgeopt.graph.analysis.onnx import analysis_of
    from edgeopt.graph.model import Model
    from edgeopt.graph.pipeline import run_pipeline

    model = _typed(source)
    before = model.ir
    found: list[Revision] = []
    for step in run_pipeline(model, emit=emit, keep_steps=True).steps:
        if not step.entry.applied or step.entry.rolled_back is not None:
            continue
        emit(Progress("comparing the graphs", step.entry.pass_name))
        analysis = analysis_of(Model(step.model_ir, model.path, model.digest), options)
        matching = match(before, step.model_ir)
        did = "; ".join(change.what for change in step.entry.applied)
        found.append(_revision(analysis, step.entry.pass_name, did, diff(matching), partners=partners(matching)))
        before = step.model_ir
    first = found[0].changes if found else None
    return (_revision(source.analysis, source.analysis.name, "", first, is_first=True), *found)


def _revision(
    analysis: Analysis,
    title: str,
    what: str,
    changes: GraphDiff | None,
    *,
    is_first: bool = False,
    partners: tuple[tuple[str, str], ...] = (),
) -> Revision:
    return Revision(
        title,
        what,
        analysis.nodes,
        analysis.inputs,
        analysis.outputs,
        changes,
        is_first,
        partners,
        analysis.op_times,
    )


def _typed(read: "AnalyzedModel") -> "Model":
    """Returns the model with the types of all its values, by which nodes are matched."""
    from edgeopt.graph.shapes.infer import infer_shapes

    if read.model is None:
        raise InputError(
            f"'{read.analysis.name}' holds an OpenVINO IR.", "Only graphs of ONNX models can be compared."
        )
    infer_shapes(read.model.ir)
    return read.model
