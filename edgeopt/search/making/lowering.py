"""The `lowered` variants: forms that only one runtime knows, as the profile lists them for its backends."""

from dataclasses import dataclass

from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.passes import Pass
from edgeopt.profiles import TargetProfile
from edgeopt.search.making.cleaning import changed, proved
from edgeopt.search.making.task import Task

NAME = "lowered"
NONE_LISTED = "the profile lists no lowerings for its backends"


@dataclass(frozen=True, slots=True)
class Lowered:
    """One variant: the backends of one runtime for which the profile lists the same."""

    backends: tuple[str, ...]
    lowerings: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"operators specific to {_runtime(self.backends[0])}"


def lowered_variants(profile: TargetProfile) -> tuple[Lowered, ...]:
    """What there is to make, in the order of the backends."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for backend in profile.backends.order:
        if names := profile.lowerings.get(backend, ()):
            found.setdefault((_runtime(backend), names), []).append(backend)
    return tuple(Lowered(tuple(backends), names) for (_, names), backends in found.items())


def lowerings_of(backend: str) -> tuple[Pass, ...]:
    """The rewrites into what the runtime behind a backend knows."""
    from edgeopt.backends.onnxruntime import lowering as onnxruntime
    from edgeopt.backends.openvino import lowering as openvino

    if backend.startswith("openvino-"):
        return openvino.lowerings()
    return onnxruntime.lowerings() if backend.startswith("onnxruntime-") else ()


def lower(task: Task) -> Ledger:
    """Writes the lowered model; raises ModelError with the reasons when nothing applied."""
    known = {one.name: one for one in lowerings_of(task.backends[0])}
    passes = tuple(known[name] for name in dict.fromkeys(task.lowerings))
    # Once, in the order of the profile: a second round would find what the first left, at the same price.
    ledger = proved(task, task.base, passes=passes, only=task.lowerings, rounds=1)
    if not changed(ledger):
        raise ModelError(f"No lowering applied: {_reasons(ledger)}.")
    return ledger


def _runtime(backend: str) -> str:
    return "OpenVINO" if backend.startswith("openvino-") else "ONNX Runtime"


def _reasons(ledger: Ledger) -> str:
    """Why not, each pass with what it said; those that found nothing of their kind last."""
    said = {
        entry.pass_name: "; ".join(
            [*([entry.rolled_back] if entry.rolled_back else []), *(one.reason for one in entry.refused)]
        )
        for entry in ledger
    }
    silent = [name for name, text in said.items() if not text]
    told = [f"{name}: {text}" for name, text in said.items() if text]
    return ". ".join([*told, *([f"No match for {', '.join(silent)}"] if silent else [])])
