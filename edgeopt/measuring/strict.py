"""Nothing may fall back: each side is loaded once and says where its nodes run, before anything is measured."""

from contextlib import closing
from pathlib import Path

import msgspec

from edgeopt.backends.base import Placement
from edgeopt.bench.contender import Side, ask
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Loaded
from edgeopt.errors import ConstraintError, TrialError
from edgeopt.events import Emit, Progress

_NAMED = 3


def refuse_fallback(sides: list[Side], folder: Path, emit: Emit) -> None:
    """Raises ConstraintError for the first side of which a part would run elsewhere than asked for."""
    for side in sides:
        if side.kind not in {"model", "bundle"}:
            continue
        emit(Progress("looking for fallback", side.name))
        with closing(LocalHost(folder).start()) as child:
            try:
                answer = ask(child, msgspec.structs.replace(side.load, strict=False))
            except TrialError:
                continue  # how it fails is told by the measurement
        if isinstance(answer, Loaded) and answer.placement is not None and answer.placement.fallen:
            raise ConstraintError(
                f"'{side.name}': {_said(answer.placement)}.",
                "Measure it without --strict, or name a backend that runs all of it.",
            )


def _said(placed: Placement) -> str:
    fallen = placed.fallen
    more = f" and {len(fallen) - _NAMED} more" if len(fallen) > _NAMED else ""
    others = ", ".join(name for name, nodes in placed.nodes.items() if nodes and name != placed.wanted)
    return (
        f"{len(fallen)} of {max(sum(placed.nodes.values()), len(fallen))} nodes do not run on {placed.wanted}"
        f"{f' but on {others}' if others else ''}: {', '.join(fallen[:_NAMED])}{more}"
    )
