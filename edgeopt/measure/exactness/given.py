"""What the models of a proof are given: the user's samples or made-up ones, as the source takes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import VerificationError
from edgeopt.measure.exactness.runtimes import Feeds

if TYPE_CHECKING:
    from edgeopt.backends.base import TensorInfo
    from edgeopt.graph.model import Model

SAMPLES = 16
MADE_UP = 4
"""Ordinary samples where the user gave none; regimes are made from the first."""


def taken_inputs(
    model: "Model", found: "tuple[TensorInfo, ...]", shapes: "Mapping[str, tuple[int, ...]]"
) -> "tuple[TensorInfo, ...]":
    """What the source takes, by what a runtime says, in the shapes that the user fixes."""
    weights = set(model.ir.graph.initializers)
    return tuple(
        msgspec.structs.replace(info, shape=shapes[info.name]) if info.name in shapes else info
        for info in found
        if info.name not in weights
    )


def ordinary_samples(model: "Model", inputs: "tuple[TensorInfo, ...]", data: Path | None) -> Feeds:
    from edgeopt.data.read import load_data
    from edgeopt.graph.feeds import generate_feeds

    if data is None:
        return generate_feeds(inputs, model.ir, MADE_UP, seed=0)
    samples = load_data(data, inputs)
    return [samples.feeds(index) for index in range(min(len(samples), SAMPLES))]


def source_file(model: "Model", folder: Path) -> Path:
    """The source as runtimes compute it without what the file claims of the shapes inside loops.

    A runtime that believes such a claim computes the state of the first turn for all of them.
    """
    from edgeopt.graph.model import save
    from edgeopt.graph.shapes import claims_in_bodies, forget_claims

    if not claims_in_bodies(model.ir):
        return model.path
    source = model.ir.clone()
    forget_claims(source)
    save(source, folder / "source.onnx")
    return folder / "source.onnx"


def check_steady(model: "Model") -> None:
    """Runtimes seed what has no seed of its own by the node's place, so that any rewrite changes the numbers."""
    from edgeopt.graph.nodes import is_random, label, nodes_of

    loose = [label(node) for node in nodes_of(model.ir) if is_random(node) and "seed" not in node.attributes]
    if loose:
        raise VerificationError(
            f"The source model draws random numbers in {loose[0]}, so its results cannot be proved.",
            "Add --no-verify to write the result without a proof.",
        )
