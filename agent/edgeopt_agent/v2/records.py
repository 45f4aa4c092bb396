"""Requests and answers of the protocol as records; the OpenAPI document has their schemas."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import msgspec


class InputParameters(msgspec.Struct, frozen=True):
    binary_data_size: int | None = None
    shared_memory_region: str | None = None


class InputTensor(msgspec.Struct, frozen=True):
    name: str
    shape: Sequence[int]
    datatype: str
    parameters: InputParameters | None = None
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    """Values of the tensor, flat or nested; missing if they follow the JSON."""


class OutputParameters(msgspec.Struct, frozen=True):
    binary_data: bool | None = None
    classification: int | None = None
    shared_memory_region: str | None = None


class RequestedOutput(msgspec.Struct, frozen=True):
    name: str
    parameters: OutputParameters | None = None


class RequestParameters(msgspec.Struct, frozen=True):
    binary_data_output: bool | None = None
    sequence_id: int | str | None = None
    """0 or empty: the request belongs to no sequence."""
    sequence_start: bool | None = None
    sequence_end: bool | None = None


class InferRequest(msgspec.Struct, frozen=True):
    inputs: Sequence[InputTensor]
    id: str | None = None
    outputs: Sequence[RequestedOutput] | None = None
    parameters: RequestParameters | None = None


class BinaryData(msgspec.Struct, frozen=True):
    binary_data_size: int


class OutputTensor(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: BinaryData | None = None
    """Size in bytes of the values that follow the JSON; None if they are in `data`."""
    data: msgspec.Raw | None = None


class InferAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: str = ""


class ErrorSentence(msgspec.Struct, frozen=True):
    """Every error under `/v2`."""

    error: str


class ServerMetadata(TypedDict):
    name: str
    version: str
    extensions: list[str]


class TensorDescription(TypedDict):
    name: str
    datatype: str
    shape: list[int]


class ModelDescription(TypedDict):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorDescription]
    outputs: list[TensorDescription]


class ConfiguredTensor(TypedDict):
    name: str
    data_type: str
    dims: list[int]


class StateTensors(TypedDict):
    input_name: str
    output_name: str
    data_type: str
    dims: list[int]


class SequenceBatching(TypedDict):
    max_sequence_idle_microseconds: int
    state: list[StateTensors]


class DynamicBatching(TypedDict):
    max_queue_delay_microseconds: int


class EnsembleStep(TypedDict):
    model_name: str
    model_version: int
    input_map: dict[str, str]
    output_map: dict[str, str]


class EnsembleScheduling(TypedDict):
    step: list[EnsembleStep]


class LatestVersions(TypedDict):
    num_versions: int


class VersionPolicy(TypedDict):
    latest: LatestVersions


class ModelConfig(TypedDict):
    """The configuration of a model as Triton writes it: with batches, the dimensions are those of one row."""

    name: str
    platform: str
    backend: NotRequired[str]
    version_policy: VersionPolicy
    max_batch_size: int
    input: list[ConfiguredTensor]
    output: list[ConfiguredTensor]
    sequence_batching: NotRequired[SequenceBatching]
    dynamic_batching: NotRequired[DynamicBatching]
    ensemble_scheduling: NotRequired[EnsembleScheduling]


class IndexedModel(TypedDict):
    name: str
    version: str
    state: str
    reason: str


class Duration(TypedDict):
    count: int
    ns: int


class InferenceStatistics(TypedDict):
    success: Duration
    fail: Duration
    queue: Duration
    compute_infer: Duration


class ModelStatistics(TypedDict):
    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceStatistics


class Statistics(TypedDict):
    model_stats: list[ModelStatistics]
