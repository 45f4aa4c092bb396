"""The protocol's documents about server and model, as plain data."""

from collections.abc import Iterable
from typing import Any, cast

from edgeopt.version import __version__
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.records import (
    ConfiguredTensor,
    Duration,
    EnsembleStep,
    IndexedModel,
    ModelConfig,
    ModelDescription,
    ModelStatistics,
    ServerMetadata,
    StateTensors,
    Statistics,
    TensorDescription,
)
from edgeopt_agent.workers.frames import RAW, Port
from edgeopt_agent.workers.names import ServedModel, served_models
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.totals import Totals

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "sequence", "statistics")
# In the order of model_config.proto, which numbers them.
DATA_TYPES = (
    "INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "STRING", "BF16",
)  # fmt: skip
_ENSEMBLE = "ensemble"
"""Triton's platform of a model with processing."""
Document = dict[str, Any]


def server() -> ServerMetadata:
    return {"name": "edgeopt-agent", "version": __version__, "extensions": list(EXTENSIONS)}


def model(served: ServedModel) -> ModelDescription:
    return {
        "name": served.name,
        "versions": [served.worker.release_id],
        "platform": _ENSEMBLE if served.processed else served.worker.backend,
        "inputs": [_tensor(port) for port in served.signature.inputs],
        "outputs": [_tensor(port) for port in served.signature.outputs],
    }


def config(served: ServedModel) -> ModelConfig:
    """Returns a model's configuration as Triton writes it: with batches, the dimensions are those of one row."""
    return _ensemble(served) if served.processed else _plain(served)


def _ensemble(served: ServedModel) -> ModelConfig:
    """Returns an ensemble of one step, the plain model: clients cannot call the processing as a model."""
    plain = served.worker.plain
    step: EnsembleStep = {
        "model_name": served.name + RAW,
        "model_version": -1,
        "input_map": {port.name: port.name for port in plain.inputs},
        "output_map": {port.name: port.name for port in plain.outputs},
    }
    return {
        "name": served.name,
        "platform": _ENSEMBLE,
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 0,
        "input": [_configured(port, 0) for port in served.signature.inputs],
        "output": [_configured(port, 0) for port in served.signature.outputs],
        "ensemble_scheduling": {"step": [step]},
    }


def _plain(served: ServedModel) -> ModelConfig:
    worker = served.worker
    batching = worker.batching if worker.batching is not None and worker.batching.used else None
    first = 0 if batching is None else 1
    states = worker.states
    document: ModelConfig = {
        "name": served.name,
        "platform": worker.backend,
        "backend": worker.backend,
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 0 if batching is None else batching.max_size,
        "input": [_configured(port, first) for port in worker.plain.inputs if port.name not in states],
        "output": [_configured(port, first) for port in worker.plain.outputs if port.name not in states.values()],
    }
    if states:
        # Triton's choice of one: batches of such a model are made of requests without a sequence only.
        document["sequence_batching"] = {
            "max_sequence_idle_microseconds": int(worker.sequence_idle_s * 1e6),
            "state": [
                _state(port, states[port.name], first) for port in worker.plain.inputs if port.name in states
            ],
        }
    elif batching is not None:
        document["dynamic_batching"] = {"max_queue_delay_microseconds": batching.max_delay_us}
    return document


def config_message(served: ServedModel) -> Document:
    """Returns `config` with gRPC's numbers for types, and with maps as lists of their entries."""
    document = cast(Document, config(served))
    tensors = [*document["input"], *document["output"], *document.get("sequence_batching", {}).get("state", ())]
    for tensor in tensors:
        tensor["data_type"] = DATA_TYPES.index(tensor["data_type"].removeprefix("TYPE_"))
    for step in document.get("ensemble_scheduling", {}).get("step", ()):
        for name in ("input_map", "output_map"):
            step[name] = [{"key": key, "value": value} for key, value in step[name].items()]
    return {"config": document}


def index(workers: Iterable[Worker]) -> list[IndexedModel]:
    return [_indexed(served) for worker in workers for served in served_models(worker)]


def _indexed(served: ServedModel) -> IndexedModel:
    worker = served.worker
    state, reason = ("READY", "") if worker.alive else ("UNAVAILABLE", worker.how_it_ended())
    return {"name": served.name, "version": worker.release_id, "state": state, "reason": reason}


def statistics(totals: Iterable[Totals]) -> Statistics:
    return {"model_stats": [_statistics(each) for each in totals]}


def _tensor(port: Port) -> TensorDescription:
    return {"name": port.name, "datatype": DATATYPES[port.dtype], "shape": _shape(port)}


def _configured(port: Port, first: int) -> ConfiguredTensor:
    datatype = "STRING" if port.dtype == "str" else DATATYPES[port.dtype]
    return {"name": port.name, "data_type": f"TYPE_{datatype}", "dims": _shape(port)[first:]}


def _state(port: Port, output: str, first: int) -> StateTensors:
    found = _configured(port, first)
    return {
        "input_name": port.name,
        "output_name": output,
        "data_type": found["data_type"],
        "dims": found["dims"],
    }


def _shape(port: Port) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in port.shape]


def _statistics(totals: Totals) -> ModelStatistics:
    ok = totals.successes
    return {
        "name": totals.name,
        "version": totals.release_id,
        "last_inference": int(totals.last_s * 1e3),
        "inference_count": totals.rows,
        "execution_count": totals.executions,
        "inference_stats": {
            "success": _duration(ok, totals.success_s),
            "fail": _duration(totals.failures, totals.failure_s),
            "queue": _duration(ok, totals.queue_s),
            "compute_infer": _duration(ok, totals.compute_s),
        },
    }


def _duration(count: int, seconds: float) -> Duration:
    return {"count": count, "ns": int(seconds * 1e9)}
