from itertools import pairwise

import pytest

from edgeopt.measure.schedules import CONTEST, PROOF, TABLE
from edgeopt.measure.sequential import Rules, rules_of


@pytest.mark.parametrize("terms", TABLE, ids=lambda terms: terms.name)
def test_each_looks_in_order_and_has_what_its_rule_needs(terms):
    assert all(one < other for one, other in pairwise((0, *terms.looks)))
    assert terms.fewest <= terms.maximum
    # Who calls something says how sure that is; who has legs says of how many rounds.
    assert bool(terms.legs) == bool(terms.at_most_percent) == (terms.leg_rounds != (0, 0))
    assert not terms.legs or terms.error > 0
    assert not terms.error or terms.same_percent > 0
    assert len(terms.keeps) in {0, len(terms.looks)}
    assert all(one <= other for one, other in pairwise(terms.keeps)), "the longer they ran, the closer"


def test_no_two_have_one_name():
    assert len({terms.name for terms in TABLE}) == len(TABLE)


def test_a_contest_is_judged_as_the_table_says_unless_told():
    assert rules_of(CONTEST) == Rules()
    assert rules_of(PROOF).error == PROOF.error < CONTEST.error
