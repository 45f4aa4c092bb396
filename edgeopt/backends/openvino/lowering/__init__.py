"""Passes that rewrite a graph into forms that are faster only in OpenVINO; they require a simplified model."""

from functools import cache
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import passes_at

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass

# Names of the passes in the order in which they run, with their modules in this folder.
PLACES = (("openvino-forms", "forms.PASS"),)
NAMES = tuple(name for name, _ in PLACES)


@cache
def lowerings() -> "tuple[Pass, ...]":
    """Returns all lowerings, imported with the first call."""
    return passes_at(__name__, (place for _, place in PLACES))
