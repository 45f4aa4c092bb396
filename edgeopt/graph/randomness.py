"""Detection of random numbers in a model, for which a proof on samples has no meaning."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.errors import ModelError
from edgeopt.graph.nodes import constant, is_op, is_random

if TYPE_CHECKING:
    import onnx_ir as ir


def random_nodes(model: "ir.Model") -> "list[ir.Node]":
    """Returns the nodes that draw random numbers, including those in subgraphs and functions.

    A seed in the model changes nothing: runtimes generate different numbers from it.
    """
    graphs = (model.graph, *model.functions.values())
    return [node for graph in graphs for node in graph.all_nodes() if is_random(node) and not _is_off(node)]


def _is_off(node: "ir.Node") -> bool:
    """Whether a Dropout has training off or a ratio of 0."""
    if not is_op(node, "Dropout"):
        return False
    ratio, training = (constant(value) for value in node.inputs[1:3])
    return any(each is not None and not np.any(each) for each in (ratio, training))


ALLOW = "Export it in eval mode, or without these operators; --allow-random accepts them."
ALLOW_EQUAL = f"{ALLOW.removesuffix('.')} if two runs give the same outputs nevertheless."
"""Hint of commands that need equal outputs of two runs."""


def check_not_random(model: "ir.Model", hint: str = ALLOW) -> None:
    """Raises ModelError naming the nodes that draw random numbers."""
    found = random_nodes(model)
    if found:
        name = f"'{found[0].name}'" if found[0].name else "without a name"
        raise ModelError(
            f"The model draws random numbers: {counts_by_operator(found)}; the first is {name}.",
            hint,
        )


def counts_by_operator(nodes: "list[ir.Node]") -> str:
    """`2 RandomNormal, 1 Dropout`."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(node.op_type for node in nodes).items())
