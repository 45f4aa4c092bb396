"""Request of `edgeopt simplify`, and the pass context made from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.errors import UsageError
from edgeopt.options import AllowRandom, argument, option, read_shapes

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import PassContext

OPSET = 17
"""Opset that older models are raised to: newer ones speed up little, and some runtimes do not load them."""


class SimplifyRequest(msgspec.Struct, frozen=True):
    model: Annotated[Path, argument("ONNX model to simplify; never changed.", metavar="MODEL")]
    out: Annotated[Path, option("Model to write.", "-o", "--out", "--output", metavar="OUT")]
    only: Annotated[tuple[str, ...], option("Pass to run alone; repeatable.", metavar="PASS")] = ()
    skip: Annotated[tuple[str, ...], option("Pass to skip; repeatable.", metavar="PASS")] = ()
    also: Annotated[tuple[str, ...], option("Pass on request to run as well; repeatable.", metavar="PASS")] = ()
    shape: Annotated[
        tuple[str, ...], option("Shape to fix for an input; repeatable.", metavar="NAME=1x3x224x224")
    ] = ()
    opset: Annotated[int, option("Opset to raise older models to.", metavar="N")] = OPSET
    layout: Annotated[
        str,
        option(
            "Order of dimensions of picture inputs and outputs: N, H, W, C or N, C, H, W.",
            metavar="channels-last|channels-first",
        ),
    ] = ""
    rules: Annotated[
        tuple[Path, ...], option("File with your own rewrites, which is executed; repeatable.", metavar="FILE.py")
    ] = ()
    data: Annotated[
        Path | None, option("Samples to prove the result on (default: generated).", metavar="DATA")
    ] = None
    pre: PicturesFile = None
    strict: Annotated[
        bool,
        option(
            "Skip passes that are exact for finite inputs only; also prove NaN, infinity, -0 and empty inputs."
        ),
    ] = False
    bisect: Annotated[bool, option("Measure the accuracy after each pass and name the worst.")] = False
    ledger: Annotated[
        Path | None,
        option("File for the ledger: each pass, applied or not, with the reason.", metavar="FILE.json"),
    ] = None
    allow_random: AllowRandom = False
    no_verify: Annotated[bool, option("Do not run the models to prove the result.")] = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by input; raises UsageError for an invalid one."""
        return read_shapes(self.shape)


def context_of(request: SimplifyRequest) -> "PassContext":
    import onnx

    from edgeopt.graph.passes.base import PassContext
    from edgeopt.graph.passes.layout.picture_order import LAYOUTS

    newest = onnx.defs.onnx_opset_version()
    if not 7 <= request.opset <= newest:
        raise UsageError(f"There is no opset {request.opset} here; the newest is {newest}.", "Give one from 7 on.")
    if request.layout and request.layout not in LAYOUTS:
        raise UsageError(f"There is no layout '{request.layout}'.", f"Give {' or '.join(LAYOUTS)}.")
    return PassContext(
        target_opset=request.opset,
        empty_inputs=request.strict,
        shapes=request.shapes,
        layout=request.layout,
    )


def requested(request: SimplifyRequest) -> tuple[str, ...]:
    """Returns the passes on request that the options ask for."""
    implied = (
        ("fix-shapes", bool(request.shape)),
        ("picture-order", bool(request.layout)),
    )
    return (*request.also, *(name for name, is_requested in implied if is_requested))
