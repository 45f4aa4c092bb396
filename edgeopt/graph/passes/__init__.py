"""Passes, the rewrites of a graph that keep its results, and `ORDER`, in which they run.

| folder      | what its passes do                                                              |
|-------------|---------------------------------------------------------------------------------|
| `cleaning/` | remove what has no effect on the results, and bring a model into common form    |
| `algebra/`  | compute the same with fewer or cheaper operators                                |
| `fusion/`   | replace several nodes by the one operator that they compute                     |
| `layout/`   | change the order of dimensions                                                  |

`knowledge/` holds facts about operators that several passes use.
"""

from functools import cache

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, passes_at

# Name and location of each pass; small passes of one family share a file.
ORDER = (
    ("weights-out-of-inputs", "cleaning.common_form.WEIGHTS_OUT_OF_INPUTS"),
    ("inline-functions", "cleaning.common_form.INLINE_FUNCTIONS"),
    ("name-nodes", "cleaning.common_form.NAME_NODES"),
    ("raise-opset", "cleaning.raise_opset.PASS"),
    ("fix-shapes", "cleaning.common_form.FIX_SHAPES"),
    ("fold-shapes", "cleaning.folding.FOLD_SHAPES"),
    ("fold-constants", "cleaning.folding.FOLD_CONSTANTS"),
    ("control-flow", "cleaning.control_flow.PASS"),
    ("einsum-into-matmul", "algebra.matrix_products.EINSUM_INTO_MATMUL"),
    ("batchnorm-into-conv", "fusion.batchnorm.INTO_CONV"),
    ("batchnorm-before-conv", "fusion.batchnorm.BEFORE_CONV"),
    ("softmax", "fusion.activations.SOFTMAX"),
    ("layer-normalization", "fusion.normalizations.LAYER_NORMALIZATION"),
    ("rms-normalization", "fusion.normalizations.RMS_NORMALIZATION"),
    ("gelu", "fusion.activations.GELU"),
    ("hard-swish", "fusion.activations.HARD_SWISH"),
    ("attention", "fusion.attention.PASS"),
    ("rewrite-patterns", "algebra.rewrite_patterns.PASS"),
    ("picture-order", "layout.picture_order.PASS"),
    ("transposes", "layout.transposes.PASS"),
    ("constant-chains", "algebra.constants.CONSTANT_CHAINS"),
    ("scale-into-linear", "algebra.constants.SCALE_INTO_LINEAR"),
    ("pad-into-pool", "fusion.pooling.PAD_INTO_POOL"),
    ("focus-into-conv", "fusion.convolutions.FOCUS_INTO_CONV"),
    ("parallel-convs", "fusion.convolutions.PARALLEL_CONVS"),
    ("matmul-add-to-gemm", "fusion.matmul_add_to_gemm.PASS"),
    ("global-pooling", "algebra.global_pooling.PASS"),
    ("operator-forms", "algebra.operator_forms.PASS"),
    ("equal-subexpressions", "cleaning.redundant.EQUAL_SUBEXPRESSIONS"),
    ("identities", "cleaning.identities.PASS"),
    ("skip-padding", "cleaning.skip_padding.PASS"),
    ("dead-nodes", "cleaning.redundant.DEAD_NODES"),
    ("deduplicate-weights", "cleaning.redundant.DEDUPLICATE_WEIGHTS"),
    ("strip-metadata", "cleaning.redundant.STRIP_METADATA"),
)
NAMES = tuple(name for name, _ in ORDER)


@cache
def standard_passes() -> tuple[Pass, ...]:
    """Returns all passes in order and imports their modules at the first call."""
    return passes_at(__name__, (place for _, place in ORDER))


__all__ = ["NAMES", "Pass", "PassContext", "PassResult", "standard_passes"]
