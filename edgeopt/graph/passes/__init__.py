"""The passes in the order in which they run; a new one is a file in a folder below, a line here and a test file.

| folder      | what its passes do                                                              |
|-------------|---------------------------------------------------------------------------------|
| `cleaning/` | take away what has no effect on the results, and bring a model into common form |
| `algebra/`  | compute the same with fewer or cheaper operators                                |
| `fusion/`   | several nodes become the one operator that they spell out                       |
| `layout/`   | the order of dimensions, and the order of nodes                                 |
"""

from edgeopt.graph.passes.algebra import global_pooling, rewrite_patterns
from edgeopt.graph.passes.base import Pass, PassContext, PassResult
from edgeopt.graph.passes.cleaning import (
    dead_nodes,
    deduplicate_weights,
    equal_subexpressions,
    fold_constants,
    identities,
    inline_functions,
    raise_opset,
    strip_metadata,
    weights_out_of_inputs,
)
from edgeopt.graph.passes.fusion import batchnorm_into_conv

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
