"""A model and what became of it, on inputs of every kind: do they give the same, NaN and infinity where they did?

What `onnx_node_cases.py --regimes` asks about each case. Numbers may differ by rounding: 1e-4 of themselves, and
1e-5 of the largest beside them (in float32).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
REGIMES: "Mapping[str, Callable[[Array], Array]]" = {
    "silence": lambda x: x * 0,
    "negative zeros": lambda x: -np.zeros_like(x),
    "nearly silent": lambda x: x * 1e-6,
    "hardly anything": lambda x: x * 1e-12,
    "loud": lambda x: x * 100,
    "constant": lambda x: np.full_like(x, x.reshape(-1)[0] if x.size else 0),
    "one alone": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size // 2, x, 0),
    "alternating": lambda x: np.where(np.arange(x.size).reshape(x.shape) % 2, np.abs(x), -np.abs(x)),
    "no numbers": lambda x: np.where(np.arange(x.size).reshape(x.shape) % 3, x, np.nan),
    "infinite": lambda x: np.where(np.arange(x.size).reshape(x.shape) % 3, x, np.inf),
}
NO_DATA = ("scales", "roi", "scale", "zero_point", "min", "max")
"""Inputs that say how big something becomes, or in which order limits lie; a hundred times as big is not meant."""
SESSION = Callable[[Path], Any]


def compared(source: Path, simplified: Path, inputs: Sequence[object], session: SESSION) -> tuple[int, str | None]:
    """How many kinds of input gave the same, and what the first that did not says."""
    feeds = [_floats(value) for value in inputs]
    if not any(array is not None and array.dtype.kind == "f" for array in feeds):
        return 0, None
    if any(array is None for array in feeds):
        return 0, None
    before, after = session(source), session(simplified)
    names = [value.name for value in before.get_inputs()]
    count = 0
    for regime, make in REGIMES.items():
        with np.errstate(all="ignore"):
            fed = {
                name: make(array).astype(array.dtype) if _is_data(name, array) else array
                for name, array in zip(names, feeds, strict=True)
            }
        wanted = _results(before, fed)
        if wanted is None or _differ(wanted, _results(before, fed)):
            continue  # it fails on such inputs, or draws random numbers
        got = _results(after, fed)
        if why := "it fails" if got is None else _differ(wanted, got):
            return count, f"{regime}: {why}"
        count += 1
    return count, None


def _is_data(name: str, array: Array | None) -> bool:
    return array is not None and array.dtype.kind == "f" and name not in NO_DATA


def _floats(value: object) -> Array | None:
    import onnx

    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    array = np.asarray(value) if isinstance(value, np.generic | np.ndarray) else None
    return array if array is not None and array.dtype.kind in "fiub" and array.dtype.name[:1] != "V" else None


def _results(session: Any, feeds: "Mapping[str, Array | None]") -> list[object] | None:  # noqa: ANN401 - ONNX Runtime's
    try:
        return list(session.run(None, dict(feeds)))
    except Exception:  # noqa: BLE001 - the runtime raises its own kinds
        return None


def _differ(wanted: Sequence[object], got: Sequence[object] | None) -> str | None:
    for one, other in zip(wanted, got or (), strict=False):
        if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray) or one.dtype.kind not in "fiub":
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{one.dtype}{one.shape} became {other.dtype}{other.shape}"
        same = _same(one, other)
        if not same.all():
            return f"{one[~same].reshape(-1)[:3]} became {other[~same].reshape(-1)[:3]}"
    return None


def _same(one: Array, other: Array) -> Array:
    if one.dtype.kind != "f":
        # What is rounded to whole numbers may fall on the other side: one step of eight bits.
        steps = int(one.dtype.itemsize == 1 and one.dtype.kind in "iu")
        return np.abs(one.astype(np.int64) - other.astype(np.int64)) <= steps
    unit = float(np.finfo(one.dtype).eps)
    wanted, got = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        largest = np.abs(wanted[finite]).max(initial=0)
        near = np.abs(wanted - got) <= 800 * unit * np.abs(wanted) + 80 * unit * largest + float(
            np.finfo(one.dtype).tiny
        )
        return np.where(finite, near, (wanted == got) | (np.isnan(wanted) & np.isnan(got)))
