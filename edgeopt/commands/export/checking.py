"""Runs the golden samples through the exported form before it is written."""

from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, Options, TensorInfo
from edgeopt.bundle.golden import Runs, answer_golden
from edgeopt.commands.export.base import Made, Order
from edgeopt.errors import VerificationError

HINT = "Nothing was written. `edgeopt verify` checks whether the bundle itself is valid on this device."


def missing_here(backend: str) -> str:
    """Why a backend cannot run here, as a sentence; empty where it can."""
    found = backend_named(backend).available()
    if isinstance(found, Available):
        return ""
    return f"Not run: the backend {backend} is not available ({found.reason})."


def check_model(order: Order, made: Made, model: Path, backend: str, options: Options) -> None:
    """Runs an exported model with these options; raises VerificationError for one that answers otherwise."""
    made.not_checked = missing_here(backend)
    if made.not_checked:
        return
    session = backend_named(backend).load(model, options)
    try:
        check_runs(order, made, session)
    finally:
        session.close()


def check_runs(order: Order, made: Made, session: Runs) -> None:
    made.answer = answer_golden(order.bundle, session)
    wrong = made.answer.sentence("The exported model")
    if wrong:
        raise VerificationError(wrong, HINT)


def ports(order: Order, model: Path, backend: str) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """What the model takes and gives, in its own order; from the profile where its runtime is not here."""
    if missing_here(backend):
        profile = order.bundle.deployment
        return tuple(
            tuple(
                TensorInfo(each.name, each.dtype, tuple(None if dim == "?" else dim for dim in each.shape))
                for each in listed
            )
            for listed in (profile.inputs, profile.outputs)
        )  # type: ignore[return-value]
    session = backend_named(backend).load(model, {})
    try:
        return session.inputs, session.outputs
    finally:
        session.close()
