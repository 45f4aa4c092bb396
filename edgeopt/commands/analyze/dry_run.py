"""Changes that the passes would make to a model, found by applying them to a copy; nothing is written."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.commands.analyze.messages import Leak, Node, Rewrite, Rewritten
from edgeopt.graph.copies import Copies
from edgeopt.graph.model import load
from edgeopt.graph.nodes import nodes_of, quiet, rare_collections
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.passes.base import Pass, PassContext
from edgeopt.graph.structure import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

_LISTED = 2000
# The analysis already lists their effect, and no other pass depends on them.
_REPORTED_ELSEWHERE = frozenset({"strip-metadata", "deduplicate-weights", "name-nodes"})
_LEAKS_LISTED = 5
# Homes, and where build machines and notebooks keep their work; `/model/layer.0` is a usual node name.
_FOLDER = re.compile(
    r"(?:/home/|/Users/|/root/|/mnt/|/tmp/|/workspace/|/opt/|/usr/|/data/|/content/|[A-Za-z]:\\)[^\s'\"<>|:;,)\]}]+"
)


@rare_collections()
def dry_run(path: Path, limit_s: float) -> Rewritten:
    """Runs one round of the default passes in their order, until the time is up."""
    model_ir = load(path).ir
    leaks, leaks_count, metadata_bytes = _leaks(model_ir)
    begin = time.process_time()
    found: list[Rewrite] = []
    not_asked: list[str] = []
    context = PassContext(copy=Copies().of)
    with quiet():
        infer_shapes(model_ir)
        for one in standard_passes():
            if one.on_request or one.name in _REPORTED_ELSEWHERE:
                continue
            if time.process_time() - begin > limit_s:
                not_asked.append(one.name)
                continue
            try:
                result = one.apply(model_ir, context)
            except Exception:  # noqa: BLE001, S112 - `simplify` tells what is wrong with a pass; here it has nothing to offer
                continue
            if result.applied:
                whats = tuple(change.what for change in result.applied)
                nodes = tuple(dict.fromkeys(node for change in result.applied for node in change.nodes))
                gone, new = _difference(model_ir, result.model)
                found.append(_rewrite(one, whats, nodes, gone, new))
                model_ir = result.model
                infer_shapes(model_ir)
    return Rewritten(tuple(found), tuple(not_asked), leaks, leaks_count, metadata_bytes)


def _rewrite(
    one: Pass, whats: tuple[str, ...], nodes: tuple[str, ...], gone: tuple[Node, ...], new: tuple[Node, ...]
) -> Rewrite:
    kind = one.apply.__module__.rsplit(".", 2)[-2]
    return Rewrite(one.name, one.title, kind, one.tolerance_db is None, whats, nodes[:_LISTED], gone, new)


def _difference(before: "ir.Model", after: "ir.Model") -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Returns the nodes in only one of two models; nodes with the same operator and name or output are in both."""
    old, new = _nodes(before), _nodes(after)
    kept = old.keys() & new.keys()
    lost = [node for key, node in old.items() if key not in kept]
    came = [node for key, node in new.items() if key not in kept]
    # A node whose output took the name of the one that was merged into it, or that was renamed.
    names = {(node.operator, node.name) for node in came if node.name}
    again = {key for node in lost if (key := (node.operator, node.name)) in names}
    return (
        tuple(node for node in lost if (node.operator, node.name) not in again),
        tuple(node for node in came if (node.operator, node.name) not in again),
    )


def _nodes(model_ir: "ir.Model") -> dict[tuple[str, str], Node]:
    found: dict[tuple[str, str], Node] = {}
    for node in nodes_of(model_ir):
        outputs = tuple(value.name or "" for value in node.outputs)
        inputs = tuple(value.name or "" if value is not None else "" for value in node.inputs)
        # One name may stand for a value in two branches: the place in the list tells them apart.
        key = (node.op_type, outputs[0] if outputs else node.name or "")
        while key in found:
            key = (key[0], f"{key[1]}'")
        found[key] = Node(node.name or "", node.op_type, inputs, outputs)
    return found


def _leaks(model_ir: "ir.Model") -> tuple[tuple[Leak, ...], int, int]:
    """Texts that name folders of the exporter's machine; how many; and the bytes of all that no runtime needs."""
    found: dict[str, Leak] = {}
    size = count = 0
    for where, text in _texts(model_ir):
        size += len(text.encode())
        match = _FOLDER.search(text)
        if match:
            count += 1
            found.setdefault(match.group(), Leak(where, match.group()))
    return tuple(found.values())[:_LEAKS_LISTED], count, size


def _texts(model_ir: "ir.Model") -> Iterator[tuple[str, str]]:
    yield "the model's description", model_ir.doc_string or ""
    yield "the producer", f"{model_ir.producer_name or ''} {model_ir.producer_version or ''}"
    yield from (("the model's metadata", text) for text in model_ir.metadata_props.values())
    for graph in model_ir.graphs():
        yield "the description of the graph", graph.doc_string or ""
        yield from (("the metadata of the graph", text) for text in graph.metadata_props.values())
        for value in (*graph.inputs, *graph.outputs, *graph.initializers.values()):
            yield f"'{value.name}'", value.doc_string or ""
            yield from ((f"'{value.name}'", text) for text in value.metadata_props.values())
    for node in nodes_of(model_ir):
        where = f"the node '{node.name or (node.outputs[0].name if node.outputs else '')}'"
        yield where, node.doc_string or ""
        yield from ((where, text) for text in node.metadata_props.values())
