"""What a strict load says when a part of a model would run elsewhere than wanted."""

from pathlib import Path

from edgeopt.backends.base import Placement
from edgeopt.errors import ModelError

_NAMED = 3


def fallback(placement: Placement | None) -> str | None:
    """What fell back, as a sentence; None where nothing did."""
    if placement is None or not placement.fallen:
        return None
    fallen, count = placement.fallen, len(placement.fallen)
    total = max(sum(placement.nodes.values()), count)
    others = ", ".join(name for name, nodes in placement.nodes.items() if nodes and name != placement.wanted)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    where = f" but on {others}" if others else ""
    return f"{count} of {total} nodes do not run on {placement.wanted}{where}: {', '.join(fallen[:_NAMED])}{more}"


def refuse_fallback(placement: Placement | None, path: Path) -> None:
    """Raises a ModelError where nodes fell back; None and a full placement are fine."""
    said = fallback(placement)
    if said is not None:
        raise ModelError(
            f"'{path.name}': {said}.",
            "Load it without 'strict' to let them run there, or choose a backend that runs all of it.",
        )
