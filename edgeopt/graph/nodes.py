"""Basic functions on nodes and values, which all modules of `graph` share."""

import gc
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray


def parts(model: "ir.Model") -> "Iterator[ir.Graph | ir.Function]":
    """Yields the main graph, all functions, and the subgraphs of both."""
    yield from model.graphs()
    for function in model.functions.values():
        yield function
        yield from function.subgraphs()


def subgraphs(node: "ir.Node") -> "tuple[tuple[str, ir.Graph], ...]":
    """Returns the graphs that a node contains, each with the name of its attribute."""
    import onnx_ir as ir

    found: list[tuple[str, ir.Graph]] = []
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            continue
        if attribute.type is ir.AttributeType.GRAPH:
            found.append((name, attribute.as_graph()))
        elif attribute.type is ir.AttributeType.GRAPHS:
            found.extend((name, graph) for graph in attribute.as_graphs())
    return tuple(found)


def inner_graphs(node: "ir.Node") -> "Iterator[ir.Graph]":
    """Yields the branches or the body of a node, if it has any."""
    yield from (graph for _, graph in subgraphs(node))


def nodes_of(model: "ir.Model") -> "Iterator[ir.Node]":
    for part in parts(model):
        yield from part


def node_count(model: "ir.Model") -> int:
    """Counts all nodes, including those in subgraphs and functions."""
    return sum(len(part) for part in parts(model))


def label(node: "ir.Node") -> str:
    """Returns a node's label: its name, else its first output."""
    return f"{node.op_type} '{node.name or (node.outputs[0].name if node.outputs else '')}'"


def is_op(node: "ir.Node | None", *types: str) -> bool:
    return node is not None and node.domain in {"", "ai.onnx"} and node.op_type in types


def constant(value: "ir.Value | None") -> "NDArray[np.generic] | None":
    """Returns the array of a constant value, a weight that is no input or a Constant's output, or None."""
    import onnx_ir as ir

    if value is None or value.is_graph_input():
        return None
    try:
        tensor = ir.convenience.get_const_tensor(value)
    except ValueError:  # a Constant that holds a sparse tensor
        return None
    return None if tensor is None else tensor.numpy()


RANDOM = ("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Multinomial", "Bernoulli")


def is_random(node: "ir.Node") -> bool:
    """Whether a node draws random numbers, so that two runs give different results."""
    return is_op(node, *RANDOM) or (is_op(node, "Dropout") and len(node.inputs) > 2)


class _Libraries:
    """A switch that suppresses logs and warnings of libraries while any thread needs it.

    Levels and filters belong to the process: if two threads each restored the state that they found, the later one
    would restore the silence of the other for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._restore = ExitStack()

    def silence(self) -> None:
        with self._lock:
            self._askers += 1
            if self._askers == 1:
                self._restore.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                for logger in (logging.getLogger(name) for name in ("onnxscript", "onnx_ir")):
                    self._restore.callback(logger.setLevel, logger.level)
                    logger.setLevel(logging.CRITICAL)

    def let_speak(self) -> None:
        with self._lock:
            self._askers -= 1
            if not self._askers:
                self._restore.close()


_LIBRARIES = _Libraries()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses logs of libraries and warnings of numpy on the terminal; the ledger reports instead."""
    _LIBRARIES.silence()
    try:
        yield
    finally:
        _LIBRARIES.let_speak()


_COLLECTED_AFTER = 100_000  # in new objects; cloning a model of a thousand nodes creates about this many


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes garbage collection rare, because collecting the cycles in graphs takes a third of a pass's time."""
    usual = gc.get_threshold()
    gc.set_threshold(_COLLECTED_AFTER, usual[1], usual[2])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
