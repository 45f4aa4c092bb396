"""Models as rows of nodes."""

from edgeopt.graph.analysis.records import Cost, NodeRow, TensorFacts

Net = tuple[list[NodeRow], list[TensorFacts], list[TensorFacts]]


def tensor(name: str) -> TensorFacts:
    return TensorFacts(name, "float32", (1, 64, 8, 8))


def node(position: int, name: str, operator: str, reads: str, makes: str, inside: str = "") -> NodeRow:
    return NodeRow(
        position,
        name,
        operator,
        "",
        tuple(map(tensor, reads.split())),
        tuple(map(tensor, makes.split())),
        0,
        0,
        inside,
        category="convolution" if operator == "Conv" else "element-wise",
        cost=Cost(read_bytes=10, written_bytes=10 * (position + 1)),
    )


def net(*rows: tuple[str, str, str, str], gives: str) -> Net:
    """Rows of name, operator, what it reads, what it makes; the model takes `x`."""
    return [node(at, *row) for at, row in enumerate(rows)], [tensor("x")], [tensor(gives)]


def chain(count: int, operators: str = "Conv Relu", scope: str = "") -> Net:
    kinds = operators.split()
    rows = [
        (scope.format(at) + f"n{at}", kinds[at % len(kinds)], "x" if at == 0 else f"t{at - 1}", f"t{at}")
        for at in range(count)
    ]
    return net(*rows, gives=f"t{count - 1}")


def branching() -> Net:
    """An If, of which both branches read what is made outside."""
    rows = [
        node(0, "start", "Relu", "x", "a"),
        node(1, "if", "If", "c", "y"),
        node(2, "then", "Abs", "a", "b", "if/then_branch"),
        node(3, "else", "Neg", "a", "b", "if/else_branch"),
        node(4, "else2", "Neg", "b", "d", "if/else_branch"),
        node(5, "end", "Relu", "y", "z"),
    ]
    return rows, [tensor("x"), tensor("c")], [tensor("z")]
