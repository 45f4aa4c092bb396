"""An inference request, from bytes to the arrays that a session takes; only workers do this."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec
from numpy.typing import NDArray

from edgeopt.decoding import thread_safe
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.v2.records import (
    InferRequest,
    InputParameters,
    InputTensor,
    OutputParameters,
    RequestedOutput,
    RequestParameters,
)
from edgeopt_agent.v2.tensors import Bytes, from_bytes, from_json
from edgeopt_agent.workers.frames import Port

MAX_JSON_BYTES = 16 << 20
MAX_ENVELOPE_BYTES = 1 << 18
"""Largest size of a request without the values of its tensors."""
MAX_DIMENSIONS = 32
MAX_SEQUENCE_ID_CHARACTERS = 128
_MORE_TENSORS = 8
"""Than the model has: the first unknown or repeated ones are named in the answer."""


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One request of a sequence, in Triton's terms."""

    id: int | str
    start: bool
    end: bool


@dataclass(frozen=True, slots=True)
class Inference:
    feeds: dict[str, NDArray[Any]]
    outputs: Sequence[tuple[Port, bool]]
    """The outputs to answer with, and whether each goes as bytes."""
    id: str
    rows: int
    sequence: SequenceStep | None = None
    processing_ms: float = 0.0
    """Time that preprocessing took."""


class _JsonInput(msgspec.Struct, frozen=True):
    name: str
    shape: msgspec.Raw
    """Read when its length is known: it may be a list of millions."""
    datatype: str
    parameters: InputParameters | None = None
    data: msgspec.Raw = msgspec.Raw()


@cache
def _decoder(max_inputs: int, max_outputs: int) -> msgspec.json.Decoder[Any]:
    """Refuses the first tensor above these numbers; a list would hold them all before it is looked at."""

    def up_to(maximum: int, kind: type) -> type:
        fields: list[tuple[str, Any, Any]] = [(f"tensor_{number}", kind | None, None) for number in range(maximum)]
        return msgspec.defstruct("Tensors", fields, array_like=True, forbid_unknown_fields=True, frozen=True)

    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("inputs", up_to(max_inputs, _JsonInput)),
        ("id", str | None, None),
        ("outputs", up_to(max_outputs, RequestedOutput) | None, None),
        ("parameters", RequestParameters | None, None),
    ]
    return msgspec.json.Decoder(thread_safe(msgspec.defstruct("InferRequest", fields, frozen=True)))


def read_request(
    text: Bytes,
    data: memoryview,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    max_elements: int,
    states: Mapping[str, str] = MappingProxyType({}),
    pause: Pause = no_pause,
) -> Inference:
    """Returns the request in a JSON text and the tensors behind it; raises RequestError with a sentence.

    `states` names the output that carries each state, by its input.
    """
    place = 0

    def values(tensor: InputTensor, port: Port, elements: int) -> NDArray[Any]:
        nonlocal place
        size = tensor.parameters.binary_data_size if tensor.parameters is not None else None
        if size is None:
            return from_json(tensor.data, port, tensor.shape, elements, pause)
        if tensor.data:
            raise RequestError(
                400, f"The input '{port.name}' has both JSON data and binary data; send one of them."
            )
        if not 0 <= size <= len(data) - place:
            raise RequestError(
                400,
                f"The input '{port.name}' should be {size} bytes long (binary_data_size); "
                f"{len(data) - place} bytes of the body are left for it.",
            )
        start, place = place, place + size
        return from_bytes(data[start:place], port, tensor.shape, elements, pause)

    found = checked_inference(
        _parse(text, len(inputs), len(outputs)), inputs, outputs, max_elements, values, states
    )
    if place != len(data):
        raise RequestError(400, f"{len(data) - place} bytes at the end of the body belong to no input.")
    return found


def checked_inference(
    request: InferRequest,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    max_elements: int,
    values: Callable[[InputTensor, Port, int], NDArray[Any]],
    states: Mapping[str, str],
) -> Inference:
    """Returns the request with the tensors that `values` reads, given an input's port and number of elements."""
    sequence = _sequence_step(request.parameters, states)
    if sequence is None:
        states = {}
    ports = {port.name: port for port in inputs}
    feeds: dict[str, NDArray[Any]] = {}
    for tensor in request.inputs:
        port = _port(tensor, ports, feeds)
        feeds[port.name] = values(tensor, port, _elements(tensor, port, max_elements))
    if sequence is not None and not sequence.start and (sent_states := [n for n in states if n in feeds]):
        raise RequestError(
            400, f"The input '{sent_states[0]}' is state, which only the first request of a sequence gives."
        )
    missing = [name for name in ports if name not in feeds and name not in states]
    if missing:
        raise RequestError(400, f"The input '{missing[0]}' is missing; the model takes: {', '.join(ports)}.")
    requested = _requested_outputs(request, [port for port in outputs if port.name not in states.values()])
    return Inference(feeds, requested, request.id or "", rows_in(inputs, feeds), sequence)


def _sequence_step(parameters: RequestParameters | None, states: Mapping[str, str]) -> SequenceStep | None:
    if parameters is None:
        return None
    start, end = bool(parameters.sequence_start), bool(parameters.sequence_end)
    if not parameters.sequence_id:
        if start or end:
            raise RequestError(400, "sequence_start and sequence_end need a sequence_id other than 0.")
        return None
    if not states:
        raise RequestError(400, "The request belongs to a sequence; this model keeps no state between requests.")
    if isinstance(parameters.sequence_id, str) and len(parameters.sequence_id) > MAX_SEQUENCE_ID_CHARACTERS:
        raise RequestError(400, f"A sequence_id has at most {MAX_SEQUENCE_ID_CHARACTERS} characters.")
    return SequenceStep(parameters.sequence_id, start, end)


def _parse(text: Bytes, inputs: int, outputs: int) -> InferRequest:
    if len(text) > MAX_JSON_BYTES:
        raise RequestError(
            413,
            f"{len(text)} bytes of JSON are more than the {MAX_JSON_BYTES} taken; send tensors as binary data.",
        )
    try:
        found = _decoder(inputs + _MORE_TENSORS, outputs + _MORE_TENSORS).decode(text)
        tensors = [each for each in msgspec.structs.astuple(found.inputs) if each is not None]
        check_envelope(len(text) - sum(len(memoryview(each.data)) for each in tensors))
        requested = None if found.outputs is None else msgspec.structs.astuple(found.outputs)
        return InferRequest(
            [InputTensor(each.name, _shape(each), each.datatype, each.parameters, each.data) for each in tensors],
            found.id,
            requested and [each for each in requested if each is not None],
            found.parameters,
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"The request is not a v2 inference request: {error}.") from None
    except RecursionError:
        raise RequestError(400, "The request's JSON is nested too deeply.") from None


def check_envelope(size: int) -> None:
    """Raises RequestError where names, shapes and parameters are longer than those of any model."""
    if size > MAX_ENVELOPE_BYTES:
        raise RequestError(
            413,
            f"The request has {size} bytes besides the values of its inputs; {MAX_ENVELOPE_BYTES} are taken for "
            "names, shapes and parameters.",
        )


def _shape(tensor: _JsonInput) -> list[int]:
    dimensions = bytes(tensor.shape).count(b",") + 1
    if dimensions > MAX_DIMENSIONS:
        raise _too_many_dimensions(tensor.name, dimensions)
    return msgspec.json.decode(tensor.shape, type=thread_safe(list[int]))


def _too_many_dimensions(name: str, dimensions: int) -> RequestError:
    return RequestError(400, f"The input '{name[:80]}' has {dimensions} dimensions, more than {MAX_DIMENSIONS}.")


def _port(tensor: InputTensor, ports: dict[str, Port], seen: dict[str, NDArray[Any]]) -> Port:
    port = ports.get(tensor.name)
    if port is None:
        raise RequestError(400, f"The model has no input '{tensor.name[:80]}'; it takes: {', '.join(ports)}.")
    if tensor.name in seen:
        raise RequestError(400, f"The input '{port.name}' is given twice.")
    if tensor.parameters is not None and tensor.parameters.shared_memory_region is not None:
        raise RequestError(400, f"The input '{port.name}' lies in shared memory, which this server does not read.")
    if tensor.datatype != DATATYPES[port.dtype]:
        raise RequestError(
            400,
            f"The input '{port.name}' must be of the datatype {DATATYPES[port.dtype]}, "
            f"not {tensor.datatype[:20]}.",
        )
    return port


def _elements(tensor: InputTensor, port: Port, maximum: int) -> int:
    """Returns the number of values in a tensor of this shape, before anything is allocated for it."""
    shape = tensor.shape
    if len(shape) > MAX_DIMENSIONS:
        raise _too_many_dimensions(port.name, len(shape))
    room = 1  # as if no dimension were zero: nothing can be made of [0, 2**62] either
    for size in shape:
        if size < 0:
            raise RequestError(400, f"The input '{port.name}' has a negative dimension in its shape {shape}.")
        room *= max(size, 1)
        if room > maximum:
            raise RequestError(
                400, f"The input '{port.name}' has more than the {maximum} values that are allowed."
            )
    elements = 0 if 0 in shape else room
    if not port.rank_known:
        return elements
    if len(shape) != len(port.shape):
        raise RequestError(
            400,
            f"The input '{port.name}' must have {len(port.shape)} dimensions {_shown(port)}, "
            f"not {len(shape)} {shape}.",
        )
    for want, got in zip(port.shape, shape, strict=True):
        if isinstance(want, int) and want != got:
            raise RequestError(400, f"The input '{port.name}' must have the shape {_shown(port)}, not {shape}.")
    return elements


def _shown(port: Port) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in port.shape) + "]"


def _requested_outputs(request: InferRequest, outputs: Sequence[Port]) -> Sequence[tuple[Port, bool]]:
    by_default = request.parameters is not None and bool(request.parameters.binary_data_output)
    if not request.outputs:
        return [(port, by_default) for port in outputs]
    ports = {port.name: port for port in outputs}
    requested: dict[str, tuple[Port, bool]] = {}
    for output in request.outputs:
        port = ports.get(output.name)
        if port is None:
            raise RequestError(400, f"The model has no output '{output.name[:80]}'; it gives: {', '.join(ports)}.")
        if output.name in requested:
            raise RequestError(400, f"The output '{port.name}' is asked for twice.")
        parameters = output.parameters or OutputParameters()
        if parameters.classification:
            raise RequestError(
                400, f"Classification of the output '{port.name}' is not done here; ask for its values."
            )
        if parameters.shared_memory_region is not None:
            raise RequestError(
                400, f"The output '{port.name}' is wanted in shared memory, which this server does not write."
            )
        binary = parameters.binary_data
        requested[port.name] = (port, by_default if binary is None else binary)
    return list(requested.values())


def rows_in(inputs: Sequence[Port], feeds: dict[str, NDArray[Any]]) -> int:
    """Returns the size of the batch, which is the first axis if the model leaves it open."""
    for port in inputs:
        array = feeds.get(port.name)
        if array is not None and array.ndim and port.shape and not isinstance(port.shape[0], int):
            return int(array.shape[0])
    return 1
