"""`edgeopt passes`: the rewrites there are, and how one of them works."""

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.options import argument, option

if TYPE_CHECKING:
    from types import ModuleType

    from edgeopt.graph.passes import Pass
    from edgeopt.plugins import Offer

STANDARD, PLUGIN = "any", "plug-in"
_KINDS = ("cleaning", "algebra", "fusion", "layout", "lowering")


class PassesRequest(msgspec.Struct, frozen=True):
    name: Annotated[str | None, argument("Pass to explain (default: list all passes).", metavar="[PASS]")] = None
    rules: Annotated[
        tuple[Path, ...], option("File with your own rewrites to list too; repeatable.", metavar="FILE.py")
    ] = ()


class PassLine(msgspec.Struct, frozen=True):
    name: str
    title: str
    kind: str = ""
    """The folder of the pass: cleaning, algebra, fusion, layout; `lowering`, `rules` or `plug-in` for others."""
    tolerance_db: float | None = None
    """Outputs keep at least this ratio; None: they stay the same to the last bit."""
    finite_only: bool = False
    """Results may differ where inputs are NaN, infinite or -0."""
    nonempty_only: bool = False
    """Results may differ, or the model fail, where an open dimension is 0."""
    on_request: bool = False
    lowest_opset: int = 0
    """Lowest opset that the pass works in; 0: any."""
    runtime: str = STANDARD
    """Runtime that supports the written operators; `any` for standard ONNX."""
    text: str = ""
    """Explanation of the pass, if a single pass was requested."""


class PassList(msgspec.Struct, frozen=True):
    passes: tuple[PassLine, ...]


def passes(request: PassesRequest) -> PassList:
    from edgeopt.commands.simplify.simplify import all_passes
    from edgeopt.graph.pipeline import select
    from edgeopt.plugins import offered

    name = request.name
    own = tuple(map(_of_plugin, (one for one in offered("pass") if not one.problem)))
    if name is not None and any(one.name == name for one in own):
        return PassList(tuple(one for one in own if one.name == name))
    found = [*((each, STANDARD) for each in all_passes(request.rules)), *_lowerings()]
    if name is not None:
        select([each for each, _ in found], only=(name,))  # names the nearest one if it does not exist
        found = [(each, runtime) for each, runtime in found if each.name == name]
    lines = tuple(_line(each, runtime, name is not None) for each, runtime in found)
    return PassList(lines if name is not None else (*lines, *own))


def _of_plugin(offer: "Offer") -> PassLine:
    """Describes a plug-in's pass by its manifest, which says neither how it works nor what it promises."""
    text = f"A pass of the plug-in {offer.source}. `edgeopt optimize` tries its result as a candidate of its own."
    return PassLine(offer.name, offer.title, PLUGIN, text=text)


def _lowerings() -> "list[tuple[Pass, str]]":
    """Returns the passes in the `lowering` folder of each runtime."""
    found = []
    for runtime, title in (("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO")):
        try:
            module = importlib.import_module(f"edgeopt.backends.{runtime}.lowering")
        except ModuleNotFoundError:
            continue
        found += [(each, title) for each in module.lowerings()]
    return found


def _is_shared(module: "ModuleType | None") -> bool:
    """Whether several passes are in one file."""
    from edgeopt.graph.passes import Pass

    return module is not None and sum(isinstance(each, Pass) for each in vars(module).values()) > 1


def _line(one: "Pass", runtime: str, with_text: bool) -> PassLine:
    module = inspect.getmodule(one.apply)
    parts = (module.__name__ if module else "").split(".")
    kind = next((part for part in _KINDS if part in parts), "rules")
    # A pass with a file of its own says at its top how it works, one that shares its file in its function.
    text = inspect.getdoc(one.apply if _is_shared(module) else module) or "" if with_text and module else ""
    return PassLine(
        one.name,
        one.title,
        kind,
        one.tolerance_db,
        finite_only=one.finite_only,
        nonempty_only=one.nonempty_only,
        on_request=one.on_request,
        lowest_opset=one.lowest_opset,
        runtime=runtime,
        text=text,
    )
