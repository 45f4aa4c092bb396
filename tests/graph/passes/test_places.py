import subprocess
import sys

import pytest

from edgeopt.graph import passes
from edgeopt.graph.passes.base import passes_at


def test_passes_come_in_the_order_of_their_places():
    found = passes_at(passes.__name__, ["cleaning.identities.PASS", "cleaning.dead_nodes.PASS"])
    assert [each.name for each in found] == ["identities", "dead-nodes"]


@pytest.mark.parametrize(
    ("place", "error", "says"),
    [
        ("cleaning.identities.NOBODY", AttributeError, r"cleaning\.identities' has no attribute 'NOBODY'"),
        ("cleaning.nowhere.PASS", ModuleNotFoundError, r"cleaning\.nowhere"),
    ],
)
def test_a_place_without_a_pass_is_named(place, error, says):
    with pytest.raises(error, match=says):
        passes_at(passes.__name__, [place])


def test_names_load_no_pass_and_the_first_call_loads_all():
    code = """
import sys
from edgeopt.backends import NAMES, lowering_names
from edgeopt.graph import passes
assert passes.NAMES and all(lowering_names(name) is not None for name in NAMES)
loaded = lambda: "edgeopt.graph.passes.cleaning.identities" in sys.modules
print(loaded(), len(passes.standard_passes()) == len(passes.NAMES), loaded())
print(passes.standard_passes() is passes.standard_passes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]
