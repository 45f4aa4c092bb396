"""The interface of a pass; together with the re-exports of `graph/nodes.py`, all that most passes need."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from edgeopt.graph.ledger import Change, Refusal
from edgeopt.graph.nodes import constant, inner_graphs, is_op, is_random, label, node_count, nodes_of, parts, quiet
from edgeopt.graph.shapes.infer import declared, forget_claims

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = [
    "Notes",
    "Pass",
    "PassContext",
    "PassResult",
    "adopt_orphans",
    "constant",
    "declared",
    "forget_claims",
    "inner_graphs",
    "is_op",
    "is_random",
    "label",
    "node_count",
    "nodes_of",
    "parts",
    "plural",
    "quiet",
    "replace_value",
]


def _clone(model: "ir.Model") -> "ir.Model":
    return model.clone()


@dataclass(frozen=True, slots=True)
class PassContext:
    """Settings and services for a pass besides the model."""

    target_opset: int = 17
    folded_limit_bytes: int = 4 << 20
    """Maximum size of one folded constant; a larger one is allowed if folding frees as much."""
    shapes: "Mapping[str, tuple[int, ...]]" = field(default_factory=dict)
    """Input shapes that the user fixes."""
    empty_inputs: bool = False
    """Whether results for empty inputs must not change; disables rewrites that need non-empty inputs."""
    layout: str = ""
    """Layout that the user requests for picture inputs and outputs; empty to keep the model's."""
    copy: "Callable[[ir.Model], ir.Model]" = field(default=_clone, compare=False, repr=False)
    """Copies the model for a pass, which must not modify the model that it receives."""


@dataclass(frozen=True, slots=True)
class PassResult:
    model: "ir.Model"
    applied: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nonempty_only: bool = False
    """Whether an applied change may fail, or change results, if an open dimension is 0."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite; `apply` does not modify the model that it receives."""

    name: str
    title: str
    apply: "Callable[[ir.Model, PassContext], PassResult]"
    tolerance_db: float | None = None
    """Lowest signal-to-noise ratio of the outputs, in dB; None if they stay the same to the last bit."""
    finite_only: bool = False
    """Whether NaN, infinity or -0 among the inputs may change results; `simplify --strict` skips the pass."""
    nonempty_only: bool = False
    """Whether some rewrites may change results for empty inputs; `PassContext.empty_inputs` disables those."""
    on_request: bool = False
    """Whether the pass runs only if the user names it or the context requires it."""
    lowest_opset: int = 0
    """Lowest opset that the rewritten model needs; the pass refuses below it."""


@dataclass(slots=True)
class Notes:
    """Log of a pass: changes and refusals; equal sentences are merged, with all their nodes."""

    applied: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    nonempty_only: bool = False

    def did(self, what: str, *nodes: str) -> None:
        self.applied.setdefault(what, []).extend(nodes)

    def refuse(self, reason: str, *nodes: str) -> None:
        self.refused.setdefault(reason, []).extend(nodes)

    def result(self, model: "ir.Model") -> PassResult:
        return PassResult(
            model,
            tuple(Change(what, tuple(dict.fromkeys(nodes))) for what, nodes in self.applied.items()),
            tuple(Refusal(reason, tuple(dict.fromkeys(nodes))) for reason, nodes in self.refused.items()),
            self.nonempty_only,
        )


def replace_value(old: "ir.Value", new: "ir.Value") -> str | None:
    """Makes all readers of `old` read `new`; returns the reason if that is impossible."""
    graph = old.producer().graph
    if old.is_graph_output():
        producer = new.producer()
        if producer is None or producer.graph is not graph or new.is_graph_output():
            return "its result is a graph output, and its input cannot take that name"
        # The model's outputs keep their declared names, types and shapes.
        name, new.shape, new.type = old.name, old.shape or new.shape, old.type or new.type
        for position, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[position] = new
        old.name = f"{name}__replaced"
        new.name = name
    old.replace_all_uses_with(new)
    return None


def adopt_orphans(model: "ir.Model") -> None:
    """Registers weights that a rule uses without registering them, under unique names."""
    taken = {weight.name for part in model.graphs() for weight in part.initializers.values()}
    taken |= {value.name for node in nodes_of(model) for value in node.outputs}
    for part in model.graphs():
        for node in part:
            for value in node.inputs:
                if value is None or value.const_value is None or value.producer() or value.is_graph_input():
                    continue
                if value.graph is None:
                    number = 1
                    while (name := f"{value.name}_{number}") in taken:
                        number += 1
                    value.name = name
                    taken.add(name)
                    part.register_initializer(value)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def passes_at(package: str, places: Iterable[str]) -> "tuple[Pass, ...]":
    """Imports passes; each place is `file.NAME` in the package, or `folder.file.NAME`."""
    return tuple(_pass_at(package, *place.rsplit(".", 1)) for place in places)


def _pass_at(package: str, file: str, name: str) -> "Pass":
    found: Pass = getattr(import_module(f"{package}.{file}"), name)
    return found
