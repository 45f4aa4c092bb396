"""Inference requests and responses of gRPC, to and from arrays; only workers do this."""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.v2.request import (
    Inference,
    InferRequest,
    InputParameters,
    InputTensor,
    OutputParameters,
    RequestedOutput,
    RequestParameters,
    checked_inference,
)
from edgeopt_agent.v2.tensors import array_type, from_bytes, to_bytes
from edgeopt_agent.v2.wire import bytes_field, split
from edgeopt_agent.workers.frames import Port

MOST_TYPED_BYTES = 16 << 20
_RAW_INPUTS, _RAW_OUTPUTS = 7, 6
# Where `contents` holds the values of each type, and as what; the two halves of the floats go raw only.
_CONTENTS: Mapping[str, tuple[str, str]] = {
    "bool": ("bool_contents", "bool"),
    **dict.fromkeys(("int8", "int16", "int32"), ("int_contents", "int32")),
    "int64": ("int64_contents", "int64"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), ("uint_contents", "uint32")),
    "uint64": ("uint64_contents", "uint64"),
    "float32": ("fp32_contents", "float32"),
    "float64": ("fp64_contents", "float64"),
    "str": ("bytes_contents", "object"),
}


def read_request(
    data: memoryview,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    max_elements: int,
    states: Mapping[str, str] = MappingProxyType({}),
) -> Inference:
    """A ModelInferRequest; raises RequestError with a sentence."""
    rest, raw = split(data, _RAW_INPUTS)
    if len(rest) > MOST_TYPED_BYTES:
        raise RequestError(
            413,
            f"{len(rest)} bytes outside raw_input_contents are more than the {MOST_TYPED_BYTES} taken; "
            "send tensors in raw_input_contents.",
        )
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

    def values(given: InputTensor, port: Port, elements: int) -> NDArray[Any]:
        index = position[given.name]
        written = message.inputs[index]
        if not raw:
            return _typed(written.contents, port, given.shape, elements)
        if written.HasField("contents"):
            raise RequestError(
                400, f"The input '{port.name}' has both contents and raw_input_contents; send one of them."
            )
        return from_bytes(raw[index], port, given.shape, elements)

    return checked_inference(request, inputs, outputs, max_elements, values, states)


def _parameters(entries: Iterable[Any], kind: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - one of the kind
    found = {
        entry.key: getattr(entry.value, chosen)
        for entry in entries
        if (chosen := entry.value.WhichOneof("parameter_choice")) is not None
    }
    return msgspec.convert(found, kind) if found else None


def _typed(contents: Any, port: Port, shape: Sequence[int], elements: int) -> NDArray[Any]:  # noqa: ANN401 - a message
    """A tensor that was sent as values of the protocol's types."""
    if port.dtype not in _CONTENTS:
        raise RequestError(
            400,
            f"The input '{port.name}' is of the datatype {DATATYPES[port.dtype]}, "
            "which goes in raw_input_contents only.",
        )
    field, carrier = _CONTENTS[port.dtype]
    written = getattr(contents, field)
    if len(written) != elements:
        raise RequestError(
            400,
            f"The input '{port.name}' of the shape {list(shape)} must have {elements} values in {field}, "
            f"not {len(written)}.",
        )
    if port.dtype == "str":
        array = np.empty(elements, object)
        # Bytes that are not UTF-8 are carried as they are: the protocol does not say what they mean.
        array[:] = [str(text, "utf-8", "surrogateescape") for text in written]
        return array.reshape(shape)
    found = np.fromiter(written, carrier, elements)
    array = found.astype(array_type(port.dtype), copy=False)
    if array.dtype.kind in "iu" and (array != found).any():
        raise RequestError(
            400, f"The data of the input '{port.name}' holds values that {DATATYPES[port.dtype]} does not have."
        )
    return array.reshape(shape)


def write_response(
    model: tuple[str, str], wanted: Sequence[tuple[Port, bool]], results: Mapping[str, NDArray[Any]], request: str
) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """A ModelInferResponse with raw tensors in two parts: its head, and what follows it without a copy."""
    arrays = [(port, results[port.name]) for port, _ in wanted]
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
    """The outputs that a release of the same model wrote; those that this one does not know are left out."""
    rest, raw = split(data, _RAW_OUTPUTS)
    message: Any = message_class("ModelInferResponse")()
    message.ParseFromString(rest)
    known = {port.name: port for port in ports}
    return {
        output.name: from_bytes(tensor, known[output.name], output.shape, math.prod(output.shape))
        for output, tensor in zip(message.outputs, raw, strict=True)
        if output.name in known
    }
