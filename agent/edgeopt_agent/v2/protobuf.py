"""Inference requests and responses of gRPC, to and from arrays; only workers do this."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from edgeopt.decoding import thread_safe
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.v2.records import (
    InferRequest,
    InputParameters,
    InputTensor,
    OutputParameters,
    RequestedOutput,
    RequestParameters,
)
from edgeopt_agent.v2.request import Inference, check_envelope, checked_inference
from edgeopt_agent.v2.tensors import array_type, check_strings, from_bytes, to_bytes, unfit
from edgeopt_agent.v2.wire import MAX_FIELDS, Field, bytes_field, outer_fields, repeated_bytes, split
from edgeopt_agent.workers.frames import Port

MAX_TYPED_BYTES = 16 << 20
Body = bytes | memoryview
_RAW_INPUTS, _RAW_OUTPUTS = 7, 6
_INPUTS, _OUTPUTS, _CONTENTS_FIELD = 5, 6, 5
# Where InferTensorContents holds the values of each type: its field, that one's number, and as what it is written.
# The two halves of the floats go raw only.
_CONTENTS: Mapping[str, tuple[str, int, str]] = {
    "bool": ("bool_contents", 1, "bool"),
    **dict.fromkeys(("int8", "int16", "int32"), ("int_contents", 2, "int32")),
    "int64": ("int64_contents", 3, "int64"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), ("uint_contents", 4, "uint32")),
    "uint64": ("uint64_contents", 5, "uint64"),
    "float32": ("fp32_contents", 6, "float32"),
    "float64": ("fp64_contents", 7, "float64"),
    "str": ("bytes_contents", 8, "object"),
}
_FIXED = frozenset({"float32", "float64"})
"""Written with all their bytes; the others as varints."""
_CHUNK_BYTES = 1 << 16
_LONGEST_VARINT = 10
_MORE = 0x80
"""Set in each byte of a varint but its last."""


def read_request(
    data: memoryview,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    max_elements: int,
    states: Mapping[str, str] = MappingProxyType({}),
    pause: Pause = no_pause,
) -> Inference:
    """Reads a ModelInferRequest; raises RequestError with a sentence."""
    fields = list(outer_fields(data))
    raw_fields = [each for each in fields if each.number == _RAW_INPUTS and each.is_bytes]
    raw = [data[each.start : each.end] for each in raw_fields]
    outside_bytes = len(data) - sum(each.end - each.begin for each in raw_fields)
    if outside_bytes > MAX_TYPED_BYTES:
        raise RequestError(
            413,
            f"{outside_bytes} bytes outside raw_input_contents are more than the {MAX_TYPED_BYTES} taken; "
            "send tensors in raw_input_contents.",
        )
    rest, typed = _without_values(data, fields)
    check_envelope(len(rest))
    try:
        message: Any = message_class("ModelInferRequest")()
        message.ParseFromString(rest)
        request = InferRequest(
            [
                InputTensor(
                    each.name, list(each.shape), each.datatype, _parameters(each.parameters, InputParameters)
                )
                for each in message.inputs
            ],
            message.id,
            [RequestedOutput(o.name, _parameters(o.parameters, OutputParameters)) for o in message.outputs],
            _parameters(message.parameters, RequestParameters),
        )
    except (DecodeError, msgspec.ValidationError) as error:
        raise RequestError(400, f"The request is not a ModelInferRequest: {error}.") from None
    if raw and len(raw) != len(request.inputs):
        raise RequestError(
            400,
            f"raw_input_contents has {len(raw)} tensors for {len(request.inputs)} inputs; "
            "send all inputs in it, or none.",
        )
    position = {each.name: index for index, each in enumerate(request.inputs)}

    def values(tensor: InputTensor, port: Port, elements: int) -> NDArray[Any]:
        index = position[tensor.name]
        if not raw:
            return _typed(typed[index], port, tensor.shape, elements, pause)
        if typed[index] is not None:
            raise RequestError(
                400, f"The input '{port.name}' has both contents and raw_input_contents; send one of them."
            )
        return from_bytes(raw[index], port, tensor.shape, elements, pause)

    return checked_inference(request, inputs, outputs, max_elements, values, states)


def _parameters(entries: Iterable[Any], kind: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - one of the kind
    found = {
        entry.key: getattr(entry.value, chosen)
        for entry in entries
        if (chosen := entry.value.WhichOneof("parameter_choice")) is not None
    }
    return msgspec.convert(found, thread_safe(kind)) if found else None


def _without_values(message: memoryview, fields: Iterable[Field]) -> tuple[bytes, list[Body | None]]:
    """Returns the request without its inputs' values, and the typed values of each input (None without).

    Counts the fields that are left: the library makes an object of each.
    """
    left = MAX_FIELDS
    rest: list[bytes | memoryview] = []
    contents: list[Body | None] = []
    for field in fields:
        if field.number == _RAW_INPUTS and field.is_bytes:
            continue
        if not field.is_bytes or field.number not in {_INPUTS, _OUTPUTS}:
            rest.append(message[field.begin : field.end])
            continue
        tensor = message[field.start : field.end]
        kept: list[memoryview] = []
        values: list[memoryview] = []
        for inner in outer_fields(tensor, left):
            left -= 1
            if field.number == _INPUTS and inner.number == _CONTENTS_FIELD and inner.is_bytes:
                values.append(tensor[inner.start : inner.end])
            else:
                kept.append(tensor[inner.begin : inner.end])
        rest += (bytes_field(field.number, sum(map(len, kept))), *kept)
        if field.number == _INPUTS:
            # One piece, as every library writes it, is not copied.
            contents.append(None if not values else values[0] if len(values) == 1 else b"".join(values))
    return b"".join(rest), contents


def _typed(contents: Body | None, port: Port, shape: Sequence[int], elements: int, pause: Pause) -> NDArray[Any]:
    """Returns a tensor that was sent as values of the protocol's types, from an InferTensorContents."""
    if port.dtype not in _CONTENTS:
        raise RequestError(
            400,
            f"The input '{port.name}' is of the datatype {DATATYPES[port.dtype]}, "
            "which goes in raw_input_contents only.",
        )
    name, number, carrier = _CONTENTS[port.dtype]
    message = contents or b""
    if port.dtype == "str":
        check_strings(port, elements)
        texts = repeated_bytes(bytes(message), number, elements + MAX_FIELDS)
        _check_count(port, shape, elements, name, len(texts))
        strings = np.empty(elements, object)
        # Bytes that are not UTF-8 are carried as they are: the protocol does not say what they mean.
        strings[:] = [str(text, "utf-8", "surrogateescape") for text in texts]
        return strings.reshape(shape)
    view = memoryview(message)
    pieces = [
        (view[field.start : field.end], field.is_bytes) for field in outer_fields(view) if field.number == number
    ]
    count = sum(_count(piece, carrier) if packed else 1 for piece, packed in pieces)
    pause()
    _check_count(port, shape, elements, name, count)  # before an array of the shape's size is made
    array = np.empty(elements, array_type(port.dtype))
    place = 0
    for piece, _ in pieces:
        for found in _numbers(piece, carrier):
            part = array[place : place + len(found)]
            pause()
            part[:] = found
            place += len(found)
            if array.dtype.kind in "iu" and array.dtype != found.dtype and (part != found).any():
                raise unfit(port)
    return array.reshape(shape)


def _check_count(port: Port, shape: Sequence[int], elements: int, field: str, count: int) -> None:
    if count != elements:
        raise RequestError(
            400,
            f"The input '{port.name}' of the shape {list(shape)} must have {elements} values in {field}, "
            f"not {count}.",
        )


def _count(packed: memoryview, carrier: str) -> int:
    """Returns the number of values in a packed field."""
    if carrier in _FIXED:
        return len(packed) // np.dtype(carrier).itemsize
    return sum(
        int(np.count_nonzero(np.frombuffer(packed[start : start + _CHUNK_BYTES], np.uint8) < _MORE))
        for start in range(0, len(packed), _CHUNK_BYTES)
    )


def _numbers(packed: memoryview, carrier: str) -> Iterator[NDArray[Any]]:
    """Yields the values of a packed field, chunk by chunk."""
    if carrier in _FIXED:
        if len(packed) % np.dtype(carrier).itemsize:
            raise RequestError(400, "The values of an input end in the middle of a number.")
        yield np.frombuffer(packed, carrier)
        return
    start = 0
    while start < len(packed):
        written = np.frombuffer(packed[start : start + _CHUNK_BYTES], np.uint8)
        if written.max() < _MORE:
            # One byte each, the most values that a message can have.
            yield written != 0 if carrier == "bool" else written.astype(carrier)
            start += len(written)
            continue
        last = np.flatnonzero(written < _MORE)
        lengths = np.diff(last, prepend=-1)
        if not len(last) or lengths.max() > _LONGEST_VARINT:
            raise RequestError(400, "The values of an input hold a number that is too long or has no end.")
        first = last - lengths + 1
        values = written[: last[-1] + 1].astype(np.uint64) & np.uint64(_MORE - 1)
        if len(values) > len(last):
            place = np.arange(len(values)) - np.repeat(first, lengths)
            values = np.bitwise_or.reduceat(values << (np.uint64(7) * place.astype(np.uint64)), first)
        # As the library does: the low bits of the carrier.
        yield values != 0 if carrier == "bool" else values.astype(carrier)
        start += int(last[-1]) + 1


def write_response(
    model: tuple[str, str],
    requested: Sequence[tuple[Port, bool]],
    results: Mapping[str, NDArray[Any]],
    request: str,
) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """Returns a ModelInferResponse with raw tensors in two parts: its head, and what follows it without a copy."""
    arrays = [(port, results[port.name]) for port, _ in requested]
    outputs = [
        {"name": port.name, "datatype": DATATYPES[port.dtype], "shape": array.shape} for port, array in arrays
    ]
    name, version = model
    head = message_class("ModelInferResponse")(
        model_name=name, model_version=version, id=request, outputs=outputs
    ).SerializeToString()
    parts: list[NDArray[np.uint8]] = []
    for _, array in arrays:
        tensor = to_bytes(array)
        parts += (np.frombuffer(bytes_field(_RAW_OUTPUTS, tensor.nbytes), np.uint8), tensor)
    return head, parts


def read_response(data: memoryview, ports: Sequence[Port]) -> dict[str, NDArray[Any]]:
    """Returns the outputs that a release of the same model wrote, without those that this one does not know."""
    rest, raw = split(data, _RAW_OUTPUTS)
    message: Any = message_class("ModelInferResponse")()
    message.ParseFromString(rest)
    known = {port.name: port for port in ports}
    return {
        output.name: from_bytes(tensor, known[output.name], output.shape, math.prod(output.shape))
        for output, tensor in zip(message.outputs, raw, strict=True)
        if output.name in known
    }
