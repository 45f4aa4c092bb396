"""The passes in the order in which they run; a new one is a file, a line here and a test file."""

from edgeopt.graph.passes import (
    batchnorm_into_conv,
    dead_nodes,
    deduplicate_weights,
    equal_subexpressions,
    fold_constants,
    global_pooling,
    identities,
    inline_functions,
    raise_opset,
    rewrite_patterns,
    strip_metadata,
    weights_out_of_inputs,
)
from edgeopt.graph.passes.base import Pass, PassContext, PassResult

PASSES: tuple[Pass, ...] = (
    weights_out_of_inputs.PASS,
    inline_functions.PASS,
    raise_opset.PASS,
    fold_constants.PASS,
    batchnorm_into_conv.PASS,
    rewrite_patterns.PASS,
    global_pooling.PASS,
    equal_subexpressions.PASS,
    identities.PASS,
    dead_nodes.PASS,
    deduplicate_weights.PASS,
    strip_metadata.PASS,
)

__all__ = ["PASSES", "Pass", "PassContext", "PassResult"]
