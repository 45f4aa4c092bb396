"""An inference's outputs, as the protocol writes them; only workers do this."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.tensors import to_bytes, to_json
from edgeopt_agent.workers.frames import Port


class _Parameters(msgspec.Struct, frozen=True):
    binary_data_size: int


class _Output(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: _Parameters | None = None
    data: list[Any] | None = None


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[_Output]
    id: str = ""


_encoder = msgspec.json.Encoder()


def write_answer(
    model: tuple[str, str], wanted: Sequence[tuple[Port, bool]], results: Mapping[str, NDArray[Any]], request: str
) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """The JSON, and the tensors behind it in its order."""
    outputs = []
    tensors = []
    for port, binary in wanted:
        array = results[port.name]
        datatype = DATATYPES[port.dtype]
        if binary or port.dtype == "bfloat16":
            tensor = to_bytes(array)
            tensors.append(tensor)
            outputs.append(_Output(port.name, datatype, array.shape, _Parameters(tensor.nbytes)))
        else:
            outputs.append(_Output(port.name, datatype, array.shape, data=to_json(array, port.name)))
    return _encoder.encode(_Answer(*model, outputs, request)), tensors


def write_error(sentence: str) -> bytes:
    return _encoder.encode({"error": sentence})
