"""Nothing may fall back: each side is loaded once and says where its nodes run, before anything is measured."""

from contextlib import closing
from pathlib import Path

import msgspec

from edgeopt.backends.base import fallback
from edgeopt.errors import ConstraintError, TrialError
from edgeopt.events import Emit, Progress
from edgeopt.measure.contender import Side, ask, load_patience_s
from edgeopt.measure.host import LocalHost
from edgeopt.measure.messages import Loaded


def refuse_fallback(sides: list[Side], folder: Path, emit: Emit, timeout_s: float | None = None) -> None:
    """Raises ConstraintError for the first side that would run in part on another provider or device."""
    for side in sides:
        if side.kind not in {"model", "bundle"}:
            continue
        emit(Progress("looking for fallback", side.name))
        with closing(LocalHost(folder).start()) as child:
            try:
                answer = ask(
                    child,
                    msgspec.structs.replace(side.load, strict=False),
                    timeout_s or load_patience_s(side.load),
                )
            except TrialError:
                continue  # the measurement reports how it fails
        said = fallback(answer.placement) if isinstance(answer, Loaded) else None
        if said is not None:
            raise ConstraintError(
                f"'{side.name}': {said}.",
                "Measure it without --strict, or name a backend that runs all of it.",
            )
