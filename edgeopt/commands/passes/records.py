"""Records of rewrites."""

import msgspec

STANDARD = "any"


class PassLine(msgspec.Struct, frozen=True):
    name: str
    title: str
    kind: str = ""
    """The folder of the pass: cleaning, algebra, fusion, layout; `lowering` or `rules` for others."""
    tolerance_db: float | None = None
    """Outputs keep at least this ratio; None: they stay the same to the last bit."""
    finite_only: bool = False
    """Results may differ where inputs are NaN, infinite or -0."""
    nonempty_only: bool = False
    """Results may differ, or the model fail, where an open dimension is 0."""
    on_request: bool = False
    lowest_opset: int = 0
    """0: any."""
    runtime: str = STANDARD
    """The one runtime that understands what it writes; `any` for standard ONNX."""
    text: str = ""
    """How it works, where one pass was asked for."""


class PassList(msgspec.Struct, frozen=True):
    passes: tuple[PassLine, ...]
