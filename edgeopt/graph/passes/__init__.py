"""The passes in the order in which they run; a new one is a file in a folder below, a line here and a test file.

| folder      | what its passes do                                                              |
|-------------|---------------------------------------------------------------------------------|
| `cleaning/` | take away what has no effect on the results, and bring a model into common form |
| `algebra/`  | compute the same with fewer or cheaper operators                                |
| `fusion/`   | several nodes become the one operator that they spell out                       |
| `layout/`   | the order of dimensions                                                         |

`knowledge/` holds facts about operators that several passes use.
"""

from functools import cache

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, passes_at

# The folder of each, and its name, which is that of its file.
ORDER = (
    "cleaning/weights-out-of-inputs",
    "cleaning/inline-functions",
    "cleaning/name-nodes",
    "cleaning/raise-opset",
    "cleaning/fix-shapes",
    "cleaning/fold-shapes",
    "cleaning/fold-constants",
    "cleaning/control-flow",
    "algebra/einsum-into-matmul",
    "fusion/batchnorm-into-conv",
    "fusion/batchnorm-before-conv",
    "fusion/softmax",
    "fusion/layer-normalization",
    "fusion/rms-normalization",
    "fusion/gelu",
    "fusion/hard-swish",
    "fusion/attention",
    "algebra/rewrite-patterns",
    "layout/picture-order",
    "layout/transposes",
    "algebra/constant-chains",
    "algebra/scale-into-linear",
    "fusion/pad-into-pool",
    "fusion/focus-into-conv",
    "fusion/parallel-convs",
    "fusion/matmul-add-to-gemm",
    "algebra/global-pooling",
    "algebra/operator-forms",
    "cleaning/equal-subexpressions",
    "cleaning/identities",
    "cleaning/skip-padding",
    "cleaning/dead-nodes",
    "cleaning/deduplicate-weights",
    "cleaning/strip-metadata",
)
NAMES = tuple(place.rpartition("/")[2] for place in ORDER)


@cache
def standard_passes() -> tuple[Pass, ...]:
    """All of them, imported with the first call."""
    return passes_at(__name__, (f"{place.replace('/', '.').replace('-', '_')}.PASS" for place in ORDER))


__all__ = ["NAMES", "Pass", "PassContext", "PassResult", "standard_passes"]
