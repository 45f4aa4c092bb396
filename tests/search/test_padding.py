from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data import Samples
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.search.padding import graph_passes, kept_by, said_of, skips_padding

LENGTH = 64


def search_of(kept_places, given=True, mask="attention_mask", passes="all", shaped=None):
    masks = np.stack([(np.arange(LENGTH) < n).astype(np.int64) for n in kept_places])[:, None]
    samples = Samples({"ids": masks, mask: masks}, {"ids": 2, mask: 2})
    inputs = tuple(TensorInfo(name, "int64", ("b", "n")) for name in samples.arrays)
    profile = SimpleNamespace(graph=SimpleNamespace(passes=passes))
    facts = SimpleNamespace(inputs=inputs)
    return SimpleNamespace(facts=facts, given=given, samples=samples, profile=profile, shaped=shaped)


@pytest.mark.parametrize(
    ("search", "share", "skips"),
    [
        (search_of([10, 20]), 0.375, True),  # of 64, 16 and 32
        (search_of([60, 64]), 1.0, False),
        (search_of([40, 50]), 0.875, False),
        (search_of([10, 20], given=False), 1.0, False),  # made up: they tell nothing of the user's lengths
        (search_of([10, 20], mask="weights"), 1.0, False),
        (search_of([10, 20], shaped=SimpleNamespace(mask="attention_mask")), 1.0, False),  # buckets do it
        (search_of([10, 20], shaped=SimpleNamespace(mask="")), 0.375, True),
    ],
    ids=["padded", "full", "hardly", "made-up", "no-mask", "cut-by-buckets", "buckets-without-it"],
)
def test_padding_is_skipped_where_the_data_has_enough(search, share, skips):
    assert kept_by(search) == share
    assert ("skip-padding" in graph_passes(search.profile, share)) == skips


def test_the_passes_of_a_profile_stay_the_only_ones_besides():
    listed = search_of([10], passes=("fold-constants",)).profile
    assert graph_passes(listed, 0.25) == ("fold-constants", "skip-padding")
    assert "fix-shapes" not in graph_passes(search_of([64]).profile, 1.0)


def test_what_was_rolled_back_is_not_told_as_done():
    done = LedgerEntry("skip-padding", applied=(Change("skips", ("m",)),), nodes_before=1, nodes_after=2)
    undone = LedgerEntry("skip-padding", nodes_before=1, nodes_after=1, rolled_back="it changes the results")
    assert skips_padding((done,))
    assert not skips_padding((undone,))
    assert "78% of the data is padding" in said_of(0.22)
