"""Forms of a graph that win in OpenVINO alone, each a pass; run them on a model that is clean already."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.places import passes_at

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass

    LOWERINGS: "tuple[Pass, ...]"

# In the order in which they run: the name of each, and where it stands in the files beside this one.
PLACES = (("openvino-forms", "forms.PASS"),)
NAMES = tuple(name for name, _ in PLACES)


def __getattr__(name: str) -> "tuple[Pass, ...]":
    """Imported when they are first asked for."""
    if name != "LOWERINGS":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = passes_at(__name__, (place for _, place in PLACES))
    globals()[name] = found
    return found


__all__ = ["LOWERINGS", "NAMES"]
