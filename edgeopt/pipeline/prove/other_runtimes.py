"""Proof of a written ONNX file in the runtimes that it was not made for."""

from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.backends.base import Available
from edgeopt.errors import EdgeoptError
from edgeopt.events import Progress
from edgeopt.quant.measured.planning.entry import Entry
from edgeopt.quant.measured.records import RuntimeProof
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.measured.work import QuantizeRun

_SAME_RESULTS = ("shapes", "threads")
"""Options that change the speed of a run but not what it computes."""


def prove_elsewhere(work: QuantizeRun, entry: Entry) -> tuple[RuntimeProof, ...]:
    """Returns what the file reaches with the default options of each installed runtime, its own excepted."""
    own = entry.config
    is_plain = not own.options.keys() - set(_SAME_RESULTS)
    return tuple(
        _proof(work, entry, name)
        for name in PROCESSOR
        if isinstance(backend_named(name).available(), Available) and not (name == own.backend and is_plain)
    )


def _proof(work: QuantizeRun, entry: Entry, backend: str) -> RuntimeProof:
    work.emit(Progress("proving", f"{entry.path.name} in {backend}, default options"))
    try:
        proof = work.judge.proof(entry.path, ExecutionConfig(backend))
    except EdgeoptError as error:
        return RuntimeProof(backend, meets_goal=False, reason=error.message)
    return RuntimeProof(backend, work.judge.met(proof) and not work.request.goal.is_open, proof)
