"""`edgeopt passes`: the rewrites there are."""

import importlib
import inspect

from edgeopt.commands.passes.records import STANDARD, PassLine, PassList
from edgeopt.commands.passes.request import Request
from edgeopt.commands.simplify.simplify import all_passes
from edgeopt.graph.passes import Pass
from edgeopt.graph.pipeline import select

_KINDS = ("cleaning", "algebra", "fusion", "layout", "lowering")


def passes(request: Request) -> PassList:
    name = request.name
    found = [*((each, STANDARD) for each in all_passes(request.rules)), *_lowerings()]
    if name is not None:
        select([each for each, _ in found], only=(name,))  # names the nearest one if it does not exist
        found = [(each, runtime) for each, runtime in found if each.name == name]
    return PassList(tuple(_line(each, runtime, name is not None) for each, runtime in found))


def _lowerings() -> list[tuple[Pass, str]]:
    """What stands under a runtime's own `lowering` folder."""
    found = []
    for runtime, title in (("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO")):
        try:
            module = importlib.import_module(f"edgeopt.backends.{runtime}.lowering")
        except ModuleNotFoundError:
            continue
        found += [(each, title) for each in module.lowerings()]
    return found


def _line(one: Pass, runtime: str, with_text: bool) -> PassLine:
    module = inspect.getmodule(one.apply)
    parts = (module.__name__ if module else "").split(".")
    kind = next((part for part in _KINDS if part in parts), "rules")
    text = inspect.getdoc(module) or "" if with_text and module else ""
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
