"""The protocol's documents about server and model, as plain data."""

from collections.abc import Iterable
from typing import Any

from edgeopt.version import __version__
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.workers.frames import Port
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.totals import Totals

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
Document = dict[str, Any]


def server() -> Document:
    return {"name": "edgeopt-agent", "version": __version__, "extensions": list(EXTENSIONS)}


def model(worker: Worker) -> Document:
    return {
        "name": worker.name,
        "versions": [worker.release_id],
        "platform": worker.backend,
        "inputs": [_tensor(port) for port in worker.inputs],
        "outputs": [_tensor(port) for port in worker.outputs],
    }


def config(worker: Worker) -> Document:
    """As Triton writes it; no batching by the server, so that the shapes are the model's own."""
    return {
        "name": worker.name,
        "platform": worker.backend,
        "backend": worker.backend,
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 0,
        "input": [_configured(port) for port in worker.inputs],
        "output": [_configured(port) for port in worker.outputs],
    }


def index(workers: Iterable[Worker]) -> list[Document]:
    return [_indexed(worker) for worker in workers]


def _indexed(worker: Worker) -> Document:
    state, reason = ("READY", "") if worker.alive else ("UNAVAILABLE", worker.how_it_ended())
    return {"name": worker.name, "version": worker.release_id, "state": state, "reason": reason}


def statistics(totals: Iterable[Totals]) -> Document:
    return {"model_stats": [_statistics(each) for each in totals]}


def _tensor(port: Port) -> Document:
    return {"name": port.name, "datatype": DATATYPES[port.dtype], "shape": _shape(port)}


def _configured(port: Port) -> Document:
    datatype = "STRING" if port.dtype == "str" else DATATYPES[port.dtype]
    return {"name": port.name, "data_type": f"TYPE_{datatype}", "dims": _shape(port)}


def _shape(port: Port) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in port.shape]


def _statistics(totals: Totals) -> Document:
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


def _duration(count: int, seconds: float) -> Document:
    return {"count": count, "ns": int(seconds * 1e9)}
