"""Dimensions that the model leaves open and that could be fixed."""

from collections.abc import Iterable
from shlex import quote

from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity, Tensor


def find(view: View) -> Iterable[Opportunity]:
    analysis = view.analysis
    open_ones = [t for t in analysis.inputs if t.shape and any(not isinstance(d, int) for d in t.shape)]
    if not open_ones or analysis.format != "ONNX":
        return
    shapes = [row for row in view.rows if row.category == "shape"]
    gain = view.share_of(shapes) if shapes else None
    names = [f"{t.name} {_shape(t)}" for t in open_ones]
    told = f" and {len(names) - 4} more" if len(names) > 4 else ""
    work = f" {len(shapes)} nodes that only compute with shapes could be folded then." if shapes else ""
    wishes = " ".join(f"--shape {quote(f'{t.name}={_example(t, view)}')}" for t in open_ones)
    yield Opportunity(
        "dynamic shapes",
        "Fix the shapes of the inputs, if every run has the same",
        f"Open: {', '.join(names[:4])}{told}. Runtimes plan once for shapes that are fixed.{work}",
        tuple(row.name or row.outputs[0].name for row in shapes),
        gain,
        f"the nodes that compute with shapes; {view.basis}" if gain is not None else "no estimate",
        f"edgeopt simplify {view.file()} -o {view.output('.fixed.onnx')} {wishes}",
    )


def _shape(tensor: Tensor) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape or ()) + "]"


def _example(tensor: Tensor, view: View) -> str:
    """The sizes behind the figures; a letter for an unknown one."""
    sizes = {each.name: each.size for each in view.analysis.dimensions}
    found = (
        d if isinstance(d, int) else sizes.get(d or f"{tensor.name}[{axis}]")
        for axis, d in enumerate(tensor.shape or ())
    )
    return "x".join("N" if size is None else str(size) for size in found)
