"""Classic machine learning: linear models, support vectors, and trees, whose numbers lie in attributes."""

from collections import defaultdict

from edgeopt.graph.analysis.cost.call import Arithmetic, Call, Unknown


def _rows(call: Call) -> int:
    shape = call.shape(0)
    return shape[0] if len(shape) > 1 else 1


def _length(call: Call, name: str) -> int:
    value = call.attributes.get(name)
    return len(value) if isinstance(value, tuple) else 0


def linear(call: Call) -> Arithmetic:
    """Each row of features times all coefficients."""
    return Arithmetic(_rows(call) * _length(call, "coefficients"))


def support_vectors(call: Call) -> Arithmetic:
    """A kernel over each of the vectors, then the coefficients."""
    vectors, coefficients = _length(call, "support_vectors"), _length(call, "coefficients")
    return Arithmetic(_rows(call) * (vectors + coefficients))


def forest(call: Call) -> Arithmetic:
    """A comparison for each node on the way to a leaf; of all leaves of a tree the nearest is counted."""
    trees, nodes = call.wholes("nodes_treeids"), call.wholes("nodes_nodeids")
    yes, no = call.wholes("nodes_truenodeids"), call.wholes("nodes_falsenodeids")
    modes = call.attributes.get("nodes_modes")
    if trees is None or nodes is None or yes is None or no is None or not isinstance(modes, tuple):
        raise Unknown("its trees cannot be read")
    after: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    roots: dict[int, int] = {}
    for tree, node, left, right, mode in zip(trees, nodes, yes, no, modes, strict=False):
        roots.setdefault(tree, node)
        if mode != "LEAF":
            after[tree][node] = left, right
    return Arithmetic(0, _rows(call) * sum(_nearest_leaf(after[tree], root) for tree, root in roots.items()))


def ensemble(call: Call) -> Arithmetic:
    """The newer form: places of nodes, and of leaves where a flag says so."""
    roots, yes, no = call.wholes("tree_roots"), call.wholes("nodes_truenodeids"), call.wholes("nodes_falsenodeids")
    yes_leaf, no_leaf = call.wholes("nodes_trueleafs"), call.wholes("nodes_falseleafs")
    if roots is None or yes is None or no is None or yes_leaf is None or no_leaf is None:
        raise Unknown("its trees cannot be read")
    after = {
        node: (-1 if yes_leaf[node] else yes[node], -1 if no_leaf[node] else no[node]) for node in range(len(yes))
    }
    return Arithmetic(0, _rows(call) * sum(_nearest_leaf(after, root) for root in roots))


def _nearest_leaf(after: dict[int, tuple[int, int]], root: int) -> int:
    """How many comparisons the shortest way takes, level by level."""
    level, depth, seen = {root}, 0, set[int]()
    while level and all(node in after for node in level):
        seen |= level
        level = {child for node in level for child in after[node]} - seen
        depth += 1
    return depth


RULES = {
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), linear),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), support_vectors),
    **dict.fromkeys(("TreeEnsembleClassifier", "TreeEnsembleRegressor"), forest),
    "TreeEnsemble": ensemble,
}
