"""Facts about PyTorch modules: the state that they keep between calls, and the sizes that torch.export allows."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgeopt.importing.children.child import Job

SIZES_OF_GUARDS = 257


def _array(value: Any) -> Any:
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


def agrees(array: Any, other: Any) -> bool:
    """Whether two answers to the same inputs are equal except for the order of sums."""
    return array.shape == other.shape and np.allclose(array, other, 1e-3, 1e-4, equal_nan=array.dtype.kind in "fc")


def state(module: Any) -> dict[str, Any]:
    """Returns what a module keeps from call to call: buffers, weights and plain attributes."""
    found: dict[str, Any] = {}
    for name, value in (*module.named_buffers(), *module.named_parameters()):
        found[name] = _fixed(value, 0)
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if not (key.startswith("_") and key in vars(_plain_module())):
                found[f"{name}.{key}" if name else key] = _fixed(value, 0)
    return found


def _plain_module() -> Any:
    import torch

    return torch.nn.Module()


def _digest(array: Any) -> bytes:
    return hashlib.sha256(np.asarray(array).tobytes()).digest()


def _fixed(value: Any, depth: int) -> Any:
    """Returns what can be compared with a later state; objects of other classes count as their class."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if hasattr(value, "detach") and hasattr(value, "shape"):
        try:
            return tuple(value.shape), _digest(_array(value))
        except Exception:
            return type(value).__name__  # sparse, nested or without data
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.shape, _digest(value)
    if depth < 4 and isinstance(value, Mapping):
        return [(repr(key), _fixed(each, depth + 1)) for key, each in list(value.items())[:1000]]
    if depth < 4 and isinstance(value, (list, tuple)):
        return len(value), [_fixed(each, depth + 1) for each in value[:1000]]
    return type(value).__name__


@contextmanager
def decisions() -> Iterator[list[tuple[Any, Any]]]:
    """Collects the conditions on sizes that torch.export decides, each with its answer."""
    found: list[tuple[Any, Any]] = []
    try:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        evaluate = ShapeEnv.evaluate_expr
    except (ImportError, AttributeError):
        yield found  # only fewer borders are known
        return

    def noted(self: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        answer = evaluate(self, condition, *args, **kwargs)
        if getattr(condition, "free_symbols", None):
            found.append((condition, answer))
        return answer

    ShapeEnv.evaluate_expr = noted
    try:
        yield found
    finally:
        ShapeEnv.evaluate_expr = evaluate


def constrain(exported: Any, names: list[str], decisions: list[tuple[Any, Any]], job: Job) -> None:
    """Limits the open dimensions to the sizes that torch.export supports in the program."""
    program = getattr(exported, "exported_program", None)
    if program is None:
        return
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    dims: dict[Any, str] = {}
    for name, inner in zip(names, program.graph_signature.user_inputs):
        for axis, dim in job.dims.get(name, {}).items():
            size = values[inner].shape[axis] if hasattr(values.get(inner), "shape") else 0
            if not isinstance(size, int) and size.node.expr.is_symbol:
                dims[size.node.expr] = dim
    for symbol, dim in dims.items():
        limits = program.range_constraints.get(symbol)
        if limits is None or dim in job.ranges:
            continue
        # torch.export starts at 0 or 2 where nothing is known: whether 1 is right, its own run says.
        low = int(limits.lower) if limits.lower > 2 else 1
        high = int(limits.upper) if limits.upper < sys.maxsize // 2 else sys.maxsize
        if low < high and (low, high) != (1, sys.maxsize):
            job.ranges[dim] = (low, high)
            span = f"{low} to {high}" if high < sys.maxsize else f"{low} or more"
            job.notes.append(f"The dimension {dim} is limited to {span}: torch.export shows another path beyond.")
    for condition in dict.fromkeys(each for each, _ in decisions):
        symbols = condition.free_symbols
        if len(symbols) == 1 and (dim := dims.get(*symbols)) is not None:
            job.borders.setdefault(dim, set()).update(_turns(condition, *symbols))


def _turns(condition: Any, symbol: Any) -> set[int]:
    """Returns the sizes at which the answer of a condition changes, and the size before each."""
    found: set[int] = set()
    try:
        before = bool(condition.subs(symbol, 1))
        for size in range(2, SIZES_OF_GUARDS):
            now = bool(condition.subs(symbol, size))
            if now != before:
                found |= {size - 1, size}
            if len(found) > 8:
                break
            before = now
    except (TypeError, ValueError, ArithmeticError):
        pass  # not a condition
    return found
