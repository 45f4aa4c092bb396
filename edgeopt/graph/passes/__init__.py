"""The passes in the order in which they run; a new one is a file in a folder below, a line here and a test file.

| folder      | what its passes do                                                              |
|-------------|---------------------------------------------------------------------------------|
| `cleaning/` | take away what has no effect on the results, and bring a model into common form |
| `algebra/`  | compute the same with fewer or cheaper operators                                |
| `fusion/`   | several nodes become the one operator that they spell out                       |
| `layout/`   | the order of dimensions, and the order of nodes                                 |

What several of them know of operators stands in `knowledge/`.
"""

from edgeopt.graph.passes.algebra import (
    constant_chains,
    einsum_into_matmul,
    global_pooling,
    operator_forms,
    rewrite_patterns,
    scale_into_linear,
    transpose_into_gemm,
)
from edgeopt.graph.passes.base import Pass, PassContext, PassResult
from edgeopt.graph.passes.cleaning import (
    control_flow,
    dead_nodes,
    deduplicate_weights,
    equal_subexpressions,
    fix_shapes,
    fold_constants,
    fold_shapes,
    identities,
    inline_functions,
    name_nodes,
    raise_opset,
    skip_padding,
    strip_metadata,
    weights_out_of_inputs,
)
from edgeopt.graph.passes.fusion import (
    attention,
    batchnorm_before_conv,
    batchnorm_into_conv,
    focus_into_conv,
    gelu,
    hard_swish,
    joined_products,
    layer_normalization,
    matmul_add_to_gemm,
    mish,
    normalization_into_conv,
    pad_into_pool,
    parallel_convs,
    resize_into_conv,
    rms_normalization,
    rotary_embedding,
    softmax,
    swish,
)
from edgeopt.graph.passes.layout import memory_order, picture_order, transposes

PASSES: tuple[Pass, ...] = (
    weights_out_of_inputs.PASS,
    inline_functions.PASS,
    name_nodes.PASS,
    raise_opset.PASS,
    fix_shapes.PASS,
    fold_shapes.PASS,
    fold_constants.PASS,
    control_flow.PASS,
    einsum_into_matmul.PASS,
    normalization_into_conv.PASS,
    resize_into_conv.PASS,
    batchnorm_into_conv.PASS,
    batchnorm_before_conv.PASS,
    softmax.PASS,
    layer_normalization.PASS,
    rms_normalization.PASS,
    rotary_embedding.PASS,
    gelu.PASS,
    swish.PASS,
    hard_swish.PASS,
    mish.PASS,
    attention.PASS,
    joined_products.PASS,
    rewrite_patterns.PASS,
    picture_order.PASS,
    transposes.PASS,
    constant_chains.PASS,
    scale_into_linear.PASS,
    pad_into_pool.PASS,
    focus_into_conv.PASS,
    parallel_convs.PASS,
    transpose_into_gemm.PASS,
    matmul_add_to_gemm.PASS,
    global_pooling.PASS,
    operator_forms.PASS,
    equal_subexpressions.PASS,
    identities.PASS,
    skip_padding.PASS,
    dead_nodes.PASS,
    deduplicate_weights.PASS,
    memory_order.PASS,
    strip_metadata.PASS,
)

__all__ = ["PASSES", "Pass", "PassContext", "PassResult"]
