"""An inference's outputs, to and from the protocol's form; only workers do this."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.decoding import thread_safe
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.v2.records import BinaryData, InferAnswer, OutputTensor
from edgeopt_agent.v2.tensors import from_bytes, from_json, to_bytes, to_json
from edgeopt_agent.workers.frames import Port

_encoder = msgspec.json.Encoder()


def write_answer(
    model: tuple[str, str],
    requested: Sequence[tuple[Port, bool]],
    results: Mapping[str, NDArray[Any]],
    request: str,
    pause: Pause = no_pause,
) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """Returns the JSON, and the tensors behind it in its order."""
    outputs = []
    tensors = []
    for port, binary in requested:
        array = results[port.name]
        datatype = DATATYPES[port.dtype]
        if binary or port.dtype == "bfloat16":
            tensor = to_bytes(array)
            tensors.append(tensor)
            outputs.append(OutputTensor(port.name, datatype, array.shape, BinaryData(tensor.nbytes)))
        else:
            outputs.append(OutputTensor(port.name, datatype, array.shape, data=to_json(array, port.name, pause)))
    return _encoder.encode(InferAnswer(*model, outputs, request)), tensors


class _ReadOutput(msgspec.Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    parameters: BinaryData | None = None
    data: msgspec.Raw = msgspec.Raw()


class _ReadAnswer(msgspec.Struct, frozen=True):
    outputs: list[_ReadOutput]


def read_answer(text: memoryview, data: memoryview, ports: Sequence[Port]) -> dict[str, NDArray[Any]]:
    """Returns the outputs that a release of the same model wrote, without those that this one does not know."""
    known = {port.name: port for port in ports}
    found: dict[str, NDArray[Any]] = {}
    place = 0
    for output in msgspec.json.decode(text, type=thread_safe(_ReadAnswer)).outputs:
        size = output.parameters.binary_data_size if output.parameters else 0
        port, elements = known.get(output.name), math.prod(output.shape)
        if port is not None and output.parameters:
            found[port.name] = from_bytes(data[place : place + size], port, output.shape, elements)
        elif port is not None:
            found[port.name] = from_json(output.data, port, output.shape, elements)
        place += size
    return found


def write_error(sentence: str) -> bytes:
    return _encoder.encode({"error": sentence})
