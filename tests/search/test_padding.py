from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.search.padding import graph_passes, kept_by, said_of, skips_padding

LENGTH = 64


def given(kept_places, mask="attention_mask"):
    masks = np.stack([(np.arange(LENGTH) < n).astype(np.int64) for n in kept_places])[:, None]
    samples = Samples({"ids": masks, mask: masks}, {"ids": 2, mask: 2})
    return tuple(TensorInfo(name, "int64", ("b", "n")) for name in samples.arrays), samples


def profile_with(passes):
    return SimpleNamespace(graph=SimpleNamespace(passes=passes))


@pytest.mark.parametrize(
    ("given", "share", "skips"),
    [
        (given([10, 20]), 0.375, True),  # of 64, 16 and 32
        (given([60, 64]), 1.0, False),
        (given([40, 50]), 0.875, False),
        (given([10, 20], mask="weights"), 1.0, False),
    ],
    ids=["padded", "full", "hardly", "no-mask"],
)
def test_padding_is_skipped_where_the_data_has_enough(given, share, skips):
    assert kept_by(*given) == share
    assert ("skip-padding" in graph_passes(profile_with("all"), share)) == skips


def test_the_passes_of_a_profile_stay_the_only_ones_besides():
    listed = profile_with(("fold-constants",))
    assert graph_passes(listed, 0.25) == ("fold-constants", "skip-padding")
    assert "fix-shapes" not in graph_passes(profile_with("all"), 1.0)


def test_what_was_rolled_back_is_not_told_as_done():
    done = LedgerEntry("skip-padding", applied=(Change("skips", ("m",)),), nodes_before=1, nodes_after=2)
    undone = LedgerEntry("skip-padding", nodes_before=1, nodes_after=1, rolled_back="it changes the results")
    assert skips_padding((done,))
    assert not skips_padding((undone,))
    assert "78% of the data is padding" in said_of(0.22)
