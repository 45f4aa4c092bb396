"""Which versions of ONNX a model is written in, and whether they are known here."""

from pathlib import Path
from types import ModuleType
from typing import Any

from edgeopt.errors import ModelError
from edgeopt.graph.files.tensors import subgraphs

# protobuf classes carry no types; these are onnx's ModelProto and NodeProto.
Proto = Any
OLDEST_OPSET = 7
"""Older models are taken where all their operators mean the same in 7; that is also what runtimes do."""
OWN = ("", "ai.onnx")


def check_versions(proto: Proto, path: Path, onnx: ModuleType) -> None:
    """Raises ModelError for a model that is too new for the onnx that is installed, or too old for all else."""
    newer = f"Update onnx ({onnx.__version__} is installed): pip install -U onnx; or export with an older one."
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"'{path.name}' has IR version {proto.ir_version}; the newest supported is {onnx.IR_VERSION}.", newer
        )
    newest = {
        "": onnx.defs.onnx_opset_version(),
        "ai.onnx": onnx.defs.onnx_opset_version(),
        "ai.onnx.ml": onnx.defs.onnx_ml_opset_version(),
    }
    own = [opset.version for opset in proto.opset_import if opset.domain in OWN]
    for opset in proto.opset_import:
        latest = newest.get(opset.domain)
        if latest is not None and opset.version > latest:
            of = "" if opset.domain in OWN else f" of {opset.domain}"
            raise ModelError(
                f"'{path.name}' uses opset {opset.version}{of}; the newest supported is {latest}.", newer
            )
    if not own and proto.ir_version < 3:
        own = [1]  # before IR version 3 no model said which
    if own and min(own) < OLDEST_OPSET and (changed := _changed(proto.graph, min(own), onnx)):
        raise ModelError(
            f"'{path.name}' uses opset {min(own)}, where {changed} has another meaning than in "
            f"{OLDEST_OPSET}, the oldest supported opset.",
            "Export it with opset 17, or raise it with onnx.version_converter.convert_version(model, 17).",
        )


def _changed(graph: Proto, opset: int, onnx: ModuleType) -> str | None:
    """The first operator of a graph that another definition took the place of before the oldest opset."""
    for node in graph.node:
        if node.domain in OWN and onnx.defs.has(node.op_type):
            try:
                then, later = (onnx.defs.get_schema(node.op_type, v).since_version for v in (opset, OLDEST_OPSET))
            except onnx.defs.SchemaError:
                return str(node.op_type)
            if then != later:
                return str(node.op_type)
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                if changed := _changed(inner, opset, onnx):
                    return changed
    return None


def import_domains(proto: Proto) -> list[str]:
    """Adds version 1 of domains whose operators are used without being imported; runtimes assume that too."""
    done: list[str] = []
    for holder, nodes in ((proto, proto.graph.node), *((f, f.node) for f in proto.functions)):
        imported = {opset.domain for opset in holder.opset_import} | set(OWN)
        for domain in sorted(_domains(nodes) - imported):
            holder.opset_import.add(domain=domain, version=1)
            done.append(domain)
    return list(dict.fromkeys(done))


def _domains(nodes: Proto) -> set[str]:
    found = {node.domain for node in nodes}
    for node in nodes:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                found |= _domains(inner.node)
    return found
