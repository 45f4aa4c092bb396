"""What `edgeopt simplify` is asked, and how it is written."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import PassContext

OPSET = 17
"""What older models are raised to: newer ones bring little that runtimes run faster, and some do not load them."""


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    model: Annotated[Path, argument("The ONNX model; it is not changed.", metavar="MODEL")]
    output: Annotated[Path, option("Where the result goes.", "-o", "--output", metavar="OUT")]
    only: Annotated[tuple[str, ...], option("Only this pass (repeatable).", metavar="PASS")] = ()
    skip: Annotated[tuple[str, ...], option("Not this pass (repeatable).", metavar="PASS")] = ()
    also: Annotated[
        tuple[str, ...], option("This pass too, which runs on request alone (repeatable).", metavar="PASS")
    ] = ()
    shape: Annotated[
        tuple[str, ...], option("Fix the shape of an input (repeatable).", metavar="NAME=1x3x224x224")
    ] = ()
    opset: Annotated[int, option("Raise older models to this opset.", metavar="N")] = OPSET
    layout: Annotated[
        str,
        option(
            "Take and give pictures in this order of dimensions (N, H, W, C or N, C, H, W).",
            metavar="channels-last|channels-first",
        ),
    ] = ""
    rules: Annotated[
        tuple[Path, ...], option("Rewrites of your own (repeatable); the file is run.", metavar="FILE.py")
    ] = ()
    data: Annotated[Path | None, option("Samples to prove the result on.", metavar="DATA")] = None
    strict: Annotated[
        bool,
        option(
            "Leave out passes that are exact for finite inputs only; prove NaN, infinity, -0 and empty inputs."
        ),
    ] = False
    bisect: Annotated[bool, option("Measure the accuracy after every pass, and name the worst.")] = False
    ledger: Annotated[Path | None, option("Write what was done and not done there.", metavar="FILE.json")] = None
    keep_failing: Annotated[
        Path | None,
        option("Where cases go in which a pass changed the results [beside OUT].", metavar="DIR"),
    ] = None
    no_verify: Annotated[bool, option("Do not run the models.")] = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Raises UsageError for what is no shape."""
        return read_shapes(self.shape)


def read_shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`NAME=1x3x224x224`, or `NAME=` for a single number."""
    shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.lower().split("x") if sizes else []
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"'{text}' is no shape.", "Write an input's name and sizes: --shape image=1x3x224x224"
            )
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def context_of(request: Request) -> "PassContext":
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


def requested(request: Request) -> tuple[str, ...]:
    """The passes on request that the options ask for."""
    implied = (
        ("fix-shapes", bool(request.shape)),
        ("picture-order", bool(request.layout)),
    )
    return (*request.also, *(name for name, wanted in implied if wanted))
