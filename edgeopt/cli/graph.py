"""`edgeopt graph`: a model as a diagram in one file."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.graph.request import GraphRequest
from edgeopt.views.blocks import Block, WordsBlock

if TYPE_CHECKING:
    from edgeopt.commands.graph.graph import GraphFile


@asks(GraphRequest)
def graph(request: GraphRequest, json: JsonFlag = False) -> None:
    """Draw a model or bundle as a graph, in an HTML or SVG file.

    \b
    The HTML page needs no server and no network. It has zoom, search, and details of each node, and
    colours nodes by operator category, measured time, lower bound, bytes or precision. --against
    adds a second model and colours what was kept, changed, fused, removed or added; --passes adds
    the model after each exact rewrite. JSON has the same nodes and changes.

    \b
    Examples:
      edgeopt graph model.onnx --html graph.html
      edgeopt graph model.onnx --html graph.html --profile-ops --data samples.npz
      edgeopt graph model.onnx --html changes.html --against model.edgeopt
      edgeopt graph model.onnx --html passes.html --passes
      edgeopt graph model.onnx -o graph.svg
    """

    from edgeopt.commands.graph.graph import draw

    execute("graph", lambda emit: draw(request, emit), show, json)


def show(found: "GraphFile") -> list[Block]:
    blocks: list[Block] = []
    if (changes := found.changes) is not None:
        counts = (
            (changes.kept, "kept"),
            (changes.count("changed"), "changed"),
            (changes.count("fused into"), "fused"),
            (changes.count("gone"), "removed"),
            (changes.count("new"), "new"),
        )
        blocks.append(WordsBlock(f"Nodes: {', '.join(f'{count:,} {word}' for count, word in counts if count)}."))
    if found.graphs > 2:
        blocks.append(WordsBlock(f"{found.graphs - 1} passes changed the graph."))
    blocks.append(WordsBlock(f"Colours: {', '.join(found.colours)}.", "faint"))
    blocks.append(WordsBlock(f"Graph: {found.path} ({units.size(found.size_bytes)})", "strong"))
    return blocks
