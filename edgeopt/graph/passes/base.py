"""What a pass is, and the few words in which all passes speak about graphs."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.graph.ledger import Change, Refusal

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Normalization:
    """(x * scale - mean) / deviation, by channel, of one input: what is usually done before the model."""

    input_name: str
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may want to know besides the model."""

    target_opset: int = 17
    folded_limit_bytes: int = 4 << 20
    """A folded constant may add this much to the model; more only where it takes as much away."""
    shapes: "Mapping[str, tuple[int, ...]]" = field(default_factory=dict)
    """The shapes of inputs that the user fixes."""
    normalize: "Normalization | None" = None
    """What the user wants done to the input within the model, where he wants that."""


@dataclass(frozen=True, slots=True)
class PassResult:
    model: "ir.Model"
    applied: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """One rewrite; `apply` leaves the model that it gets as it is."""

    name: str
    title: str
    apply: "Callable[[ir.Model, PassContext], PassResult]"
    tolerance_db: float | None = None
    """Outputs keep at least this ratio of signal to noise; None: they stay the same to the last bit."""
    on_request: bool = False
    """It runs only where it is named, or where the context holds what it asks for."""
    lowest_opset: int = 0
    """The opset that what it writes needs; below, the pass refuses and says so."""


@dataclass(slots=True)
class Notes:
    """What a pass writes down while it works; equal sentences become one, with all their nodes."""

    applied: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)

    def did(self, what: str, *nodes: str) -> None:
        self.applied.setdefault(what, []).extend(nodes)

    def refuse(self, reason: str, *nodes: str) -> None:
        self.refused.setdefault(reason, []).extend(nodes)

    def result(self, model: "ir.Model") -> PassResult:
        return PassResult(
            model,
            tuple(Change(what, tuple(dict.fromkeys(nodes))) for what, nodes in self.applied.items()),
            tuple(Refusal(reason, tuple(dict.fromkeys(nodes))) for reason, nodes in self.refused.items()),
        )


def parts(model: "ir.Model") -> "Iterator[ir.Graph | ir.Function]":
    """The main graph, all subgraphs, and all functions with theirs."""
    yield from model.graphs()
    for function in model.functions.values():
        yield function
        yield from function.subgraphs()


def nodes_of(model: "ir.Model") -> "Iterator[ir.Node]":
    for part in parts(model):
        yield from part


def node_count(model: "ir.Model") -> int:
    """All nodes, those in subgraphs and functions too."""
    return sum(len(part) for part in parts(model))


def label(node: "ir.Node") -> str:
    """A node by its name, or by its first output where it has none."""
    return f"{node.op_type} '{node.name or (node.outputs[0].name if node.outputs else '')}'"


def is_op(node: "ir.Node | None", *types: str) -> bool:
    return node is not None and node.domain in {"", "ai.onnx"} and node.op_type in types


def constant(value: "ir.Value | None") -> "NDArray[np.generic] | None":
    """The array behind a value that never changes: a weight that is no input, or a Constant's output."""
    import onnx_ir as ir

    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def replace_value(old: "ir.Value", new: "ir.Value") -> str | None:
    """Lets everything that reads `old` read `new`; returns why that cannot be, where it cannot."""
    graph = old.producer().graph
    if old.is_graph_output():
        producer = new.producer()
        if producer is None or producer.graph is not graph or new.is_graph_output():
            return "its result is an output of the graph, and what it passes on cannot take that name"
        # The model's outputs keep the names, types and shapes that they were declared with.
        name, new.shape, new.type = old.name, old.shape or new.shape, old.type or new.type
        for position, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[position] = new
        old.name = f"{name}__replaced"
        new.name = name
    old.replace_all_uses_with(new)
    return None


def adopt_orphans(model: "ir.Model") -> None:
    """Gives weights that a rule put into use under a name already taken a place and a name of their own."""
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


RANDOM = (
    "RandomUniform",
    "RandomNormal",
    "RandomUniformLike",
    "RandomNormalLike",
    "Multinomial",
    "Bernoulli",
)


def is_random(node: "ir.Node") -> bool:
    """Whether a node draws random numbers, so that running it twice gives two results."""
    return is_op(node, *RANDOM) or (is_op(node, "Dropout") and len(node.inputs) > 2)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what libraries log and numpy warns about off the user's terminal; the ledger tells."""
    loggers = [logging.getLogger(name) for name in ("onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
