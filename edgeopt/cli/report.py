"""`edgeopt report`: what is known of a bundle, as one file to read, to print or to send."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.report.request import ReportRequest
from edgeopt.views.blocks import Block, WordsBlock, lines

if TYPE_CHECKING:
    from edgeopt.commands.report.facts import Reports


@asks(ReportRequest)
def report(request: ReportRequest, json: JsonFlag = False) -> None:
    """Write a report of a bundle: verdict, evidence, and every decision with its reason.

    \b
    The HTML file is self-contained: it loads nothing, runs no script, follows the light or dark
    theme, and prints. Facts that the bundle lacks are marked unknown. To list operators the model is
    read; to measure the time of each node it runs for a few seconds in separate processes.

    \b
    Examples:
      edgeopt report model.edgeopt --html report.html
      edgeopt report model.edgeopt --html report.html --model model.onnx
      edgeopt report model.edgeopt -o report.md --no-nodes
      edgeopt report model.edgeopt -o facts.json && jq .accuracy.outputs facts.json
    """

    from edgeopt.commands.report.report import report

    execute("report", lambda emit: report(request, emit), show, json)


def show(found: "Reports") -> list[Block]:
    unknown = (f"Not known: {what}. {reason}" for what, reason in found.unknown.items())
    last = WordsBlock(f"Report: {found.path} ({units.size(found.size_bytes)})", "strong")
    return [WordsBlock(found.summary), *lines(unknown, "faint"), last]
