"""Why onnxscript's rules left alone what they found: its matcher tells a listener."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeopt.graph.nodes import label

if TYPE_CHECKING:
    import onnx_ir as ir
    from onnxscript.rewriter import MatchResult, MatchStatus

SAYS_NOTHING = ("Condition function check failed", "")
"""What onnxscript gives as the reason for a check that returned False."""


class WhyNot:
    """Given to `apply_to_model` as its tracer; tells the reason and the node of each match whose check failed."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self.tell = tell

    def log(
        self,
        rule: object,  # noqa: ARG002
        container: object,  # noqa: ARG002
        node: "ir.Node",
        match: "MatchResult",
        status: "MatchStatus",
    ) -> None:
        from onnxscript.rewriter import MatchStatus

        if status is MatchStatus.CONDITION_FAILED:
            self.tell((match.reason or "").rstrip("."), label(node))
