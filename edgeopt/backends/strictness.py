"""What a strict load says when a part of a model would run elsewhere than wanted."""

from pathlib import Path

from edgeopt.backends.base import Placement
from edgeopt.errors import ModelError

_NAMED = 3


def refuse_fallback(placement: Placement | None, path: Path) -> None:
    """Raises a ModelError where nodes fell back; None and a full placement are fine."""
    if placement is None or not placement.fallen:
        return
    fallen, count = placement.fallen, len(placement.fallen)
    total = sum(placement.nodes.values()) or count
    others = ", ".join(name for name, nodes in placement.nodes.items() if nodes and name != placement.wanted)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    raise ModelError(
        f"{count} of {total} nodes of '{path.name}' would not run on {placement.wanted}"
        f"{f' but on {others}' if others else ''}: {', '.join(fallen[:_NAMED])}{more}.",
        "Load it without 'strict' to let them run there, or choose a backend that runs all of it.",
    )
