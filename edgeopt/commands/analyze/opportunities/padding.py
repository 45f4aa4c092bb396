"""Sequences that a mask says are padded: what fills them up need not be computed."""

from collections.abc import Iterable

from edgeopt.commands.analyze.inputs import infos
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.data.read import load_data
from edgeopt.graph.analysis import Opportunity, Tensor
from edgeopt.graph.masks import is_mask, kept_share

_LEAST_GAIN = 0.1


def find(view: View) -> Iterable[Opportunity]:
    """Where a length is open and no output has a row for each place."""
    analysis = view.analysis
    masks = [tensor for tensor in analysis.inputs if is_mask(tensor.name, len(tensor.shape or ()))]
    if len(masks) != 1 or analysis.format != "ONNX":
        return
    length = (masks[0].shape or (None, None))[1]
    if not isinstance(length, str) or any(length in (output.shape or ()) for output in analysis.outputs):
        return
    gain = None if view.data is None else _padded_share(view, masks[0])
    if gain is not None and gain < _LEAST_GAIN:
        return
    told = (
        f"{gain:.0%} of your data is padding."
        if gain is not None
        else "Pass --data to see how much of your data is padding."
    )
    yield Opportunity(
        "padding",
        f"Skip the padding that '{masks[0].name}' marks at the end of sequences",
        f"{told} It is computed like other values; optimize proves that it does not matter and skips it.",
        (),
        gain,
        "the share of padding" if gain is not None else "no estimate without data",
        view.optimize,
    )


def _padded_share(view: View, mask: Tensor) -> float | None:
    assert view.data is not None  # noqa: S101 - the caller has looked
    samples = load_data(view.data, infos(view.analysis.inputs, {}))
    return 1.0 - kept_share(samples, mask.name)
