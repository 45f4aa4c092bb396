"""`edgeopt analyze`: what a model is made of."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.graph.analysis import Analysis, Tensor

_SHOWN_WEIGHTS = 10
_SHOWN_FILES = 10
_BAR = 30


def analyze(
    subject: Annotated[Path, typer.Argument(metavar="MODEL|BUNDLE", help="What to look at.", show_default=False)],
    nodes: Annotated[bool, typer.Option("--nodes", help="Print every node too.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show what a model is made of: inputs, outputs, operators, nodes, weights, sizes.

    \b
    Nothing is run and no weight is loaded. Of a bundle it shows the model inside, and what
    the bundle says of itself.

    \b
    Examples:
      edgeopt analyze model.onnx
      edgeopt analyze model.edgeopt --nodes
      edgeopt analyze model.onnx --json | jq '.data.operators'
    """
    from edgeopt.analyzing.analyze import analyze as look

    execute(
        "analyze",
        work=lambda emit: look(subject, emit),
        show=lambda analysis, console: show(analysis, console, nodes),
        json=json,
    )


def show(analysis: "Analysis", console: "Console", nodes: bool = False) -> None:
    """Summary, inputs and outputs, operators, the largest weights; the nodes where asked for."""
    _summary(analysis, console)
    _ports(analysis, console)
    _operators(analysis, console)
    _weights(analysis, console)
    if nodes:
        _nodes(analysis, console)
    for warning in analysis.warnings:
        console.print(f"\nnote: {warning}", markup=False)


def _summary(analysis: "Analysis", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    version = f" (IR version {analysis.ir_version})" if analysis.ir_version is not None else ""
    rows = [
        ("Name", analysis.name),
        ("Format", f"{analysis.format}{version}{f', opset {opsets}' if opsets else ''}"),
        ("Made by", analysis.producer),
        ("Size", size(analysis.size_bytes)),
        ("Weights", f"{size(analysis.weights_bytes)} in {analysis.weights_count:,}"),
        ("Parameters", f"{analysis.parameters:,}"),
        ("Nodes", f"{analysis.nodes_count:,}, {len(analysis.operators)} operators"),
        ("Functions", f"{analysis.functions_count:,}" if analysis.functions_count else ""),
        ("Digest", f"sha256 {analysis.digest[:16]}…"),
    ]
    files = analysis.external_files
    rows += [("External data", f"{file.name}, {size(file.size_bytes)}") for file in files[:_SHOWN_FILES]]
    if len(files) > _SHOWN_FILES:
        rows.append(("", f"and {len(files) - _SHOWN_FILES:,} more files"))
    deployment = analysis.deployment
    if deployment is not None:
        options = " ".join(f"{key}={value}" for key, value in deployment.options.items())
        rows += [
            ("Made from", f"{deployment.source}, {deployment.created}, for {deployment.target}"),
            ("Runs with", f"{deployment.backend} {options}".strip()),
            ("Result", deployment.summary),
        ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for title, value in rows:
        if value:
            table.add_row(title, Text(value))
    console.print(table)


def _ports(analysis: "Analysis", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("", "name", "type", "shape", box=None, pad_edge=False)
    for role, tensors in (("input", analysis.inputs), ("output", analysis.outputs)):
        for tensor in tensors:
            table.add_row(role, Text(tensor.name), tensor.dtype or "?", Text(shape_text(tensor)))
    console.print()
    console.print(table)


def _operators(analysis: "Analysis", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("operator", "", "nodes", "weights", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    most = max((row.count for row in analysis.operators), default=1)
    for row in analysis.operators:
        name = f"{row.domain}.{row.operator}" if row.domain else row.operator
        weights = size(row.weights_bytes) if row.weights_bytes else ""
        table.add_row(Text(name), Text(_bar(row.count / most), "cyan"), f"{row.count:,}", weights)
    console.print()
    console.print(table)


def _weights(analysis: "Analysis", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    if not analysis.weights:
        return
    table = Table("largest weights", "type", "shape", "size", "share", box=None, pad_edge=False)
    for column in table.columns[3:]:
        column.justify = "right"
    for row in analysis.weights[:_SHOWN_WEIGHTS]:
        share = row.size_bytes / analysis.weights_bytes if analysis.weights_bytes else 0.0
        table.add_row(Text(row.name), row.dtype, Text(str(list(row.shape))), size(row.size_bytes), f"{share:.1%}")
    console.print()
    console.print(table)


def _nodes(analysis: "Analysis", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("#", "operator", "name", "inputs", "outputs", "weights", box=None, pad_edge=False)
    table.columns[0].justify = table.columns[5].justify = "right"
    for row in analysis.nodes:
        sides = (", ".join(shape_text(t) for t in side if t.name) for side in (row.inputs, row.outputs))
        name = f"{row.inside}/{row.name}" if row.inside else row.name
        weights = size(row.weights_bytes) if row.weights_bytes else ""
        table.add_row(str(row.position), Text(row.operator), Text(name), *(Text(side) for side in sides), weights)
    console.print()
    console.print(table)


def shape_text(tensor: "Tensor") -> str:
    """`[batch, 3, ?, 224]`, or `?` where not even the number of dimensions is known."""
    if tensor.shape is None:
        return "?"
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape) + "]"


def size(size_bytes: int) -> str:
    """In the unit in which it is easy to read."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def _bar(share: float) -> str:
    """Eighths of a block, so that small differences show."""
    eighths = max(1, round(share * _BAR * 8))
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
