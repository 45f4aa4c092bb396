"""`edgeopt passes`: what there is to be applied."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Row, Table, Words, columns, filled, lines, section

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgeopt.graph.passes import Pass

STANDARD = "any"
_FOR_ONE_RUNTIME = "By edgeopt optimize alone, where the target profile's [lowerings] has them"
KINDS = ("cleaning", "algebra", "fusion", "layout", "lowering")


class PassLine(msgspec.Struct, frozen=True):
    name: str
    title: str
    kind: str = ""
    """The folder that it stands in: cleaning, algebra, fusion, layout; `lowering` or `rules` for others."""
    tolerance_db: float | None = None
    """Outputs keep at least this ratio; None: they stay the same to the last bit."""
    on_request: bool = False
    lowest_opset: int = 0
    """0: any."""
    runtime: str = STANDARD
    """The one runtime that understands what it writes; `any` for standard ONNX."""
    text: str = ""
    """How it works, where one pass was asked for."""


class PassList(msgspec.Struct, frozen=True):
    passes: tuple[PassLine, ...]


def passes(
    name: Annotated[
        str | None, typer.Argument(metavar="[PASS]", help="Tell how this one works.", show_default=False)
    ] = None,
    rules: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="List rewrites of your own too (repeatable).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """All graph rewrites, a line each, in the order in which they run; or how one of them works.

    \b
    Results stay the same to the last bit, or within the ratio that is told. What runs on request
    alone is named with `edgeopt simplify --also PASS`. What only one runtime knows or runs
    faster is done by `edgeopt optimize`, where [lowerings] of the target profile has it.

    \b
    Examples:
      edgeopt passes
      edgeopt passes batchnorm-into-conv
      edgeopt passes --json | jq -r '.data.passes[].name'
    """
    execute("passes", lambda _: list_passes(name, tuple(rules or ())), show, json)


def list_passes(name: str | None = None, rules: "Iterable[Path]" = ()) -> PassList:
    from edgeopt.commands.simplify.simplify import all_passes
    from edgeopt.graph.pipeline import select

    found = [*((each, STANDARD) for each in all_passes(tuple(rules))), *_lowerings()]
    if name is not None:
        select([each for each, _ in found], only=(name,))  # says which name is near where there is none
        found = [(each, runtime) for each, runtime in found if each.name == name]
    return PassList(tuple(_line(each, runtime, name is not None) for each, runtime in found))


def _lowerings() -> "list[tuple[Pass, str]]":
    """What stands under a runtime's own `lowering` folder."""
    import importlib

    found = []
    for runtime, title in (("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO")):
        try:
            module = importlib.import_module(f"edgeopt.backends.{runtime}.lowering")
        except ModuleNotFoundError:
            continue
        found += [(each, title) for each in module.LOWERINGS]
    return found


def _line(one: "Pass", runtime: str, with_text: bool) -> PassLine:
    import inspect

    module = inspect.getmodule(one.apply)
    parts = (module.__name__ if module else "").split(".")
    kind = next(
        (part for part in ("cleaning", "algebra", "fusion", "layout", "lowering") if part in parts), "rules"
    )
    text = inspect.getdoc(module) or "" if with_text and module else ""
    return PassLine(one.name, one.title, kind, one.tolerance_db, one.on_request, one.lowest_opset, runtime, text)


def show(result: PassList) -> list[Block]:
    if len(result.passes) == 1 and result.passes[0].text:
        (line,) = result.passes
        title = Words(f"{line.name}: {line.title}", "strong")
        return [title, Words(_facts(line)), section("", Words(line.text))]
    several = any(line.runtime != STANDARD for line in result.passes)
    rows = []
    for line in result.passes:
        opset = str(line.lowest_opset) if line.lowest_opset else ""
        told = (line.name, line.title, _results(line), line.kind, opset, line.runtime if several else "")
        rows.append(Row(told, "faint" if line.on_request or line.runtime != STANDARD else ""))
    table = Table(columns("=pass", "what it does", "!results", "!kind", "opset", "runtime"), tuple(rows))
    requested = [line.name for line in result.passes if line.on_request and line.runtime == STANDARD]
    said = [f"On request alone (edgeopt simplify --also PASS): {', '.join(requested)}."] if requested else []
    said += [f"{_FOR_ONE_RUNTIME}: those with a runtime beside them."] if several else []
    return [filled(table), section("", *lines(said))]


def _results(line: PassLine) -> str:
    return "exact" if line.tolerance_db is None else f"{line.tolerance_db:g} dB"


def _facts(line: PassLine) -> str:
    facts = [
        f"kind: {line.kind}",
        "results: the same to the last bit"
        if line.tolerance_db is None
        else f"results: at least {line.tolerance_db:g} dB of the source's",
        *([] if line.runtime != STANDARD else ["runs on request alone" if line.on_request else "runs by default"]),
        *([f"needs opset {line.lowest_opset}"] if line.lowest_opset else []),
        *([f"for {line.runtime} alone, where the target profile's [lowerings] has it"]
          if line.runtime != STANDARD else []),
    ]  # fmt: skip
    return "; ".join(facts) + "."
