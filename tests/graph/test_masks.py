import numpy as np
import pytest

from edgeopt.graph.masks import is_mask, used_length


def test_a_mask_is_known_by_its_name_and_rank():
    assert is_mask("attention_mask", 2)
    assert is_mask("Input_Mask", 2)
    assert not is_mask("attention_mask", 4)
    assert not is_mask("input_ids", 2)


@pytest.mark.parametrize(
    ("rows", "used"),
    [
        ([[1, 1, 0, 0]], 2),
        ([[1, 0, 0, 0], [1, 1, 1, 0]], 3),  # the longest row
        ([[0, 1, 0, 1]], 4),  # gaps do not end it
        ([[1, 1, 0, 0], [0, 0, 0, 0]], None),
        ([[]], None),
    ],
    ids=["one", "longest", "gaps", "an-empty-row", "no-places"],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_how_much_of_it_is_used(rows, used, dtype):
    assert used_length(np.array(rows, dtype)) == used
