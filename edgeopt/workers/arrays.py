"""Files of arrays, for requests and answers of workers: also texts, bfloat16, sequences and maps."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.errors import writing_to


def write_arrays(path: Path, values: Mapping[str, Any]) -> None:
    """Writes a line of JSON with types and shapes, then the arrays as they lie in memory."""
    arrays: list[np.ndarray[Any, Any]] = []
    plan = {name: _planned(value, arrays) for name, value in values.items()}
    head = {"values": plan, "arrays": [[_type(array), list(array.shape)] for array in arrays]}
    with writing_to(path), path.open("wb") as file:
        file.write(json.dumps(head).encode() + b"\n")
        for array in arrays:
            # A flat view of bytes: numpy's own writer does not know bfloat16 and float8.
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_arrays(path: Path) -> dict[str, Any]:
    """Reads what `write_arrays` wrote."""
    with path.open("rb") as file:
        head = json.loads(file.readline())
        arrays = [_array(file.read(_bytes(kind, shape)), kind, shape) for kind, shape in head["arrays"]]
    turn = iter(arrays)
    return {name: _made(each, turn) for name, each in head["values"].items()}


def _planned(value: object, arrays: list[np.ndarray[Any, Any]]) -> object:
    """Returns the JSON plan of a value, and appends its arrays: `null` is an array, lists and maps nest."""
    if isinstance(value, list):
        return {"list": [_planned(each, arrays) for each in value]}
    if isinstance(value, dict):
        return {"map": [[key, _planned(each, arrays)] for key, each in value.items()]}
    if value is None:
        return "none"
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        array = array.astype(str)  # texts; of one length each, so that they need no pickling
    arrays.append(array)
    return None


def _made(plan: Any, arrays: Iterator[Any]) -> Any:  # noqa: ANN401 - what JSON holds, and what runtimes give
    if plan is None:
        return next(arrays)
    if plan == "none":
        return None
    if "list" in plan:
        return [_made(each, arrays) for each in plan["list"]]
    return {key: _made(each, arrays) for key, each in plan["map"]}


def _type(array: np.ndarray[Any, Any]) -> str:
    return str(array.dtype.str if array.dtype.kind == "U" else array.dtype.name)


def _dtype(kind: str) -> np.dtype[Any]:
    try:
        return np.dtype(kind)
    except TypeError:
        import ml_dtypes  # noqa: F401 - gives numpy the names bfloat16 and float8_*

        return np.dtype(kind)


def _bytes(kind: str, shape: list[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * _dtype(kind).itemsize


def _array(raw: bytes, kind: str, shape: list[int]) -> np.ndarray[Any, Any]:
    array = np.frombuffer(bytearray(raw), _dtype(kind)).reshape(shape)
    # Runtimes represent texts as arrays of objects.
    return array.astype(object) if array.dtype.kind == "U" else array
