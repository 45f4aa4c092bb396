"""The random graphs find bugs: each of those planted into passes, within 2,000 graphs, or 20,000 for rare ones."""

import random

import pytest

from tests.differential import check
from tests.differential.graphs import BYTES, case_from
from tests.differential.planted import BUGS

WITHIN, WITHIN_RARE = 2000, 20_000


def graphs_until_found(bug):
    """How many random graphs it takes; a case that fails without the bug too does not count."""
    source = random.Random(17)  # noqa: S311 - graphs are no secrets
    for number in range(1, (WITHIN_RARE if bug.needs else WITHIN) + 1):
        case = case_from(source.randbytes(BYTES + BYTES // 2))
        if not {*bug.needs} <= {node.op_type for node in case.model.graph.node}:
            continue
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            found = fails(case)
        if found and not fails(case):
            return number
    return None


def fails(case):
    try:
        found = next(check.findings(case, names=("ONNX Runtime",)), None)
    except check.UselessError:
        return None
    # A pass that fails or leaves something invalid finds itself.
    return found if found is not None and found.runtime != "-" else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    BUGS,
    ids=lambda bug: bug.name,
)
@pytest.mark.timeout(900)
def test_a_planted_bug_is_found(bug, record_property):
    number = graphs_until_found(bug)
    record_property("graphs", number)
    assert number is not None
