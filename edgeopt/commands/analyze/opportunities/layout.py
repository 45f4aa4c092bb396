"""Transposes that move data without computing anything, and the order of dimensions that the device likes."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity

_LEAST_SHARE = 0.005
_CHANNELS_LAST = ("onnxruntime-xnnpack", "onnxruntime-qnn")
_LEAST_CONVOLUTIONS = 0.3


def find(view: View) -> Iterable[Opportunity]:
    yield from _transposes(view)
    yield from _channels_last(view)


def _transposes(view: View) -> Iterable[Opportunity]:
    gone = {
        name
        for each in (view.rewritten.rewrites if view.rewritten else ())
        for n in each.gone
        for name in n.outputs
    }
    rows = [row for row in view.rows if row.operator == "Transpose" and row.outputs[0].name not in gone]
    share = view.share_of(rows)
    if not rows or share is None or share < _LEAST_SHARE:
        return
    moved = sum((row.cost.read_bytes or 0) + (row.cost.written_bytes or 0) for row in rows)
    yield Opportunity(
        "layout",
        "Avoid transposes",
        f"Transposes of {units.size(moved)} in {units.count(len(rows), 'node')} compute "
        "nothing; no pass can remove them, but exporting with another layout may.",
        tuple(row.name or row.outputs[0].name for row in rows),
        share,
        f"at most, if all of them go; {view.basis}",
        view.optimize,
    )


def _channels_last(view: View) -> Iterable[Opportunity]:
    """Backends that want the channels last transpose around every group of nodes that they take."""
    here = [row for row in view.analysis.coverage if row.backend in _CHANNELS_LAST and row.supported]
    convolutions = [row for row in view.rows if row.category == "convolution"]
    share = view.share_of(convolutions)
    if not here or share is None or share < _LEAST_CONVOLUTIONS:
        return
    yield Opportunity(
        "layout",
        "Put the channels last",
        f"{here[0].title} computes convolutions with the channels last, and converts around each of its "
        f"{(here[0].boundaries or 0) + 1} groups of nodes.",
        tuple(row.name or row.outputs[0].name for row in convolutions),
        None,
        "no estimate: it depends on how the backend groups the nodes",
        view.optimize,
    )
