"""One model in several states: after each pass, or beside what another model has made of it."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import InputError
from edgeopt.events import Emit, Progress
from edgeopt.graph.analysis import Analysis, GivenShapes, NodeRow, TensorFacts
from edgeopt.graph.diff import GraphDiff, diff, match

if TYPE_CHECKING:
    from edgeopt.commands.analyze.analyze import AnalyzedModel
    from edgeopt.graph.model import Model


class Revision(msgspec.Struct, frozen=True):
    title: str
    """The name of the file, or of the pass that made it."""
    what: str
    """What the pass did."""
    nodes: tuple[NodeRow, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    changes: GraphDiff | None = None
    """From the revision before; of the first one, to the one after."""
    is_first: bool = False


class Revisions(msgspec.Struct, frozen=True):
    revisions: tuple[Revision, ...]


def changes_between(first: "AnalyzedModel", second: "AnalyzedModel") -> GraphDiff:
    return diff(match(_typed(first).ir, _typed(second).ir))


def of_two(first: Analysis, second: Analysis, changes: GraphDiff) -> tuple[Revision, ...]:
    return (
        _revision(first, first.name, "", changes, is_first=True),
        _revision(second, second.name, "", changes),
    )


def of_passes(source: "AnalyzedModel", given: GivenShapes, emit: Emit) -> tuple[Revision, ...]:
    """The source, and the model after each exact rewrite that changed something."""
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
        analysis = analysis_of(Model(step.model_ir, model.path, model.digest), given)
        changes = diff(match(before, step.model_ir))
        did = "; ".join(change.what for change in step.entry.applied)
        found.append(_revision(analysis, step.entry.pass_name, did, changes))
        before = step.model_ir
    first = found[0].changes if found else None
    return (_revision(source.analysis, source.analysis.name, "", first, is_first=True), *found)


def _revision(
    analysis: Analysis, title: str, what: str, changes: GraphDiff | None, *, is_first: bool = False
) -> Revision:
    return Revision(title, what, analysis.nodes, analysis.inputs, analysis.outputs, changes, is_first)


def _typed(read: "AnalyzedModel") -> "Model":
    """The model with the types of all its values, by which nodes are matched."""
    from edgeopt.graph.shapes import infer_shapes

    if read.model is None:
        raise InputError(
            f"'{read.analysis.name}' holds an OpenVINO IR.", "Only graphs of ONNX models can be compared."
        )
    infer_shapes(read.model.ir)
    return read.model
