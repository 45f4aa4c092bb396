"""Forms of a graph that win in OpenVINO alone, each a pass; run them on a model that is clean already."""

from edgeopt.backends.openvino.lowering import forms
from edgeopt.graph.passes.base import Pass

LOWERINGS: tuple[Pass, ...] = (forms.PASS,)

__all__ = ["LOWERINGS"]
