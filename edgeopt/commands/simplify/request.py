"""What `edgeopt simplify` is asked, and how it is written."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Normalization, PassContext, Resizing

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
    normalize: Annotated[
        str,
        option(
            "Let the model do (input * scale - mean) / deviation by channel itself.",
            metavar="NAME=SCALE:MEANS:DEVIATIONS",
        ),
    ] = ""
    resize: Annotated[
        str,
        option(
            "Take frames of this width and height, whole multiples of the input's, and resize them itself.",
            metavar="NAME=640x480",
        ),
    ] = ""
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


def read_normalization(text: str) -> "Normalization":
    """`NAME=SCALE:MEAN,MEAN,MEAN:DEVIATION,DEVIATION,DEVIATION`."""
    from edgeopt.graph.passes.base import Normalization

    how = "Write it as NAME=SCALE:MEANS:DEVIATIONS, such as image=1/255:0.485,0.456,0.406:0.229,0.224,0.225"
    name, equals, rest = text.rpartition("=")
    fields = rest.split(":")
    if not equals or not name or len(fields) != 3:
        raise UsageError(f"'{text}' is no normalization.", how)
    try:
        (scale,), mean, deviation = ([_number(part) for part in field.split(",")] for field in fields)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"'{text}' holds what is no number.", how) from None
    if len(mean) != len(deviation) or 0 in {scale, *deviation}:
        raise UsageError(
            f"'{text}' must have as many means as deviations, and a scale and deviations that are not 0.", how
        )
    return Normalization(name, scale, tuple(mean), tuple(deviation))


def read_resizing(text: str) -> "Resizing":
    """`NAME=WIDTHxHEIGHT`."""
    from edgeopt.graph.passes.base import Resizing

    name, equals, sides = text.rpartition("=")
    width, cross, height = sides.lower().partition("x")
    if not (equals and name and cross and width.isdecimal() and height.isdecimal() and int(width) * int(height)):
        raise UsageError(
            f"'{text}' is no size of frames.", "Write an input's name, width and height: --resize image=640x480"
        )
    return Resizing(name, int(width), int(height))


def _number(text: str) -> float:
    above, slash, below = text.partition("/")
    value = float(above) / float(below) if slash else float(above)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def context_of(request: Request) -> "PassContext":
    import onnx

    from edgeopt.graph.passes.base import PassContext
    from edgeopt.graph.passes.layout.picture_order import LAYOUTS

    newest = onnx.defs.onnx_opset_version()
    if not 7 <= request.opset <= newest:
        raise UsageError(f"There is no opset {request.opset} here; the newest is {newest}.", "Give one from 7 on.")
    normalize = read_normalization(request.normalize) if request.normalize else None
    resize = read_resizing(request.resize) if request.resize else None
    if request.layout and request.layout not in LAYOUTS:
        raise UsageError(f"There is no layout '{request.layout}'.", f"Give {' or '.join(LAYOUTS)}.")
    return PassContext(
        target_opset=request.opset,
        shapes=request.shapes,
        normalize=normalize,
        resize=resize,
        layout=request.layout,
    )


def requested(request: Request) -> tuple[str, ...]:
    """The passes on request that the options ask for."""
    implied = (
        ("fix-shapes", bool(request.shape)),
        ("normalization-into-conv", bool(request.normalize)),
        ("resize-into-conv", bool(request.resize)),
        ("picture-order", bool(request.layout)),
    )
    return (*request.also, *(name for name, wanted in implied if wanted))
