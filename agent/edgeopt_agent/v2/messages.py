"""The messages of the protocol's gRPC service, built when they are first needed: no generated code."""

import re
from collections.abc import Callable, Mapping
from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

PACKAGE = "inference"

# As in KServe's and Triton's grpc_service.proto; fields that this agent neither reads nor writes are left out.
_SCHEMA: Mapping[str, str] = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "bool live = 1",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "bool ready = 1",
    "ModelReadyRequest": "string name = 1; string version = 2",
    "ModelReadyResponse": "bool ready = 1",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "string name = 1; string version = 2; repeated string extensions = 3",
    "ModelMetadataRequest": "string name = 1; string version = 2",
    "TensorMetadata": "string name = 1; string datatype = 2; repeated int64 shape = 3",
    "ModelMetadataResponse": "string name = 1; repeated string versions = 2; string platform = 3;"
    "repeated TensorMetadata inputs = 4; repeated TensorMetadata outputs = 5",
    "InferParameter": "oneof bool bool_param = 1; oneof int64 int64_param = 2; oneof string string_param = 3;"
    "oneof double double_param = 4; oneof uint64 uint64_param = 5",
    # A map goes over the wire as a list of its entries.
    "Parameter": "string key = 1; InferParameter value = 2",
    "InferInputTensor": "string name = 1; string datatype = 2; repeated int64 shape = 3;"
    "repeated Parameter parameters = 4",
    "InferRequestedOutputTensor": "string name = 1; repeated Parameter parameters = 2",
    "ModelInferRequest": "string model_name = 1; string model_version = 2; string id = 3;"
    "repeated Parameter parameters = 4; repeated InferInputTensor inputs = 5;"
    "repeated InferRequestedOutputTensor outputs = 6; repeated bytes raw_input_contents = 7",
    "InferOutputTensor": "string name = 1; string datatype = 2; repeated int64 shape = 3",
    "ModelInferResponse": "string model_name = 1; string model_version = 2; string id = 3;"
    "repeated InferOutputTensor outputs = 5; repeated bytes raw_output_contents = 6",
    "ModelStreamInferResponse": "string error_message = 1; ModelInferResponse infer_response = 2",
    "StatisticDuration": "uint64 count = 1; uint64 ns = 2",
    "InferStatistics": "StatisticDuration success = 1; StatisticDuration fail = 2; StatisticDuration queue = 3;"
    "StatisticDuration compute_infer = 5",
    "ModelStatistics": "string name = 1; string version = 2; uint64 last_inference = 3;"
    "uint64 inference_count = 4; uint64 execution_count = 5; InferStatistics inference_stats = 6",
    "ModelStatisticsRequest": "string name = 1; string version = 2",
    "ModelStatisticsResponse": "repeated ModelStatistics model_stats = 1",
    "LatestVersions": "uint32 num_versions = 1",
    "ModelVersionPolicy": "LatestVersions latest = 1",
    # Types of data are an enumeration, which goes over the wire as a number.
    "ModelInput": "string name = 1; int32 data_type = 2; repeated int64 dims = 4",
    "ModelOutput": "string name = 1; int32 data_type = 2; repeated int64 dims = 3",
    "ModelDynamicBatching": "uint64 max_queue_delay_microseconds = 2",
    "SequenceState": "string input_name = 1; string output_name = 2; int32 data_type = 3; repeated int64 dims = 4",
    "ModelSequenceBatching": "uint64 max_sequence_idle_microseconds = 1; repeated SequenceState state = 5",
    "MapEntry": "string key = 1; string value = 2",
    "EnsembleStep": "string model_name = 1; int64 model_version = 2; repeated MapEntry input_map = 3;"
    "repeated MapEntry output_map = 4",
    "ModelEnsembling": "repeated EnsembleStep step = 1",
    "ModelConfig": "string name = 1; string platform = 2; ModelVersionPolicy version_policy = 3;"
    "int32 max_batch_size = 4; repeated ModelInput input = 5; repeated ModelOutput output = 6;"
    "ModelDynamicBatching dynamic_batching = 11; ModelSequenceBatching sequence_batching = 13;"
    "ModelEnsembling ensemble_scheduling = 15;"
    "string backend = 17",
    "ModelConfigRequest": "string name = 1; string version = 2",
    "ModelConfigResponse": "ModelConfig config = 1",
    "ModelIndex": "string name = 1; string version = 2; string state = 3; string reason = 4",
    "RepositoryIndexRequest": "string repository_name = 1; bool ready = 2",
    "RepositoryIndexResponse": "repeated ModelIndex models = 1",
}
_FIELD = re.compile(r"(?P<label>repeated |oneof )?(?P<type>\w+) (?P<name>\w+) = (?P<number>\d+)")


@cache
def message_class(name: str) -> Callable[..., Message]:
    """Returns the class of a message, whose arguments are its fields."""
    found: Callable[..., Message] = message_factory.GetMessageClass(
        _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    )
    return found


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    # Not the default pool: a program that also loads a client's generated code would register the names twice.
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="grpc_service.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field in _FIELD.finditer(fields):
            _add_field(message, field)
    pool.Add(file)
    return pool


def _add_field(message: descriptor_pb2.DescriptorProto, written: re.Match[str]) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=written["name"], number=int(written["number"]))
    field.label = kinds.LABEL_REPEATED if written["label"] == "repeated " else kinds.LABEL_OPTIONAL
    if written["type"] in _SCHEMA:
        field.type = kinds.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{written['type']}"
    else:
        field.type = kinds.Type.Value(f"TYPE_{written['type'].upper()}")
    if written["label"] == "oneof ":
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
