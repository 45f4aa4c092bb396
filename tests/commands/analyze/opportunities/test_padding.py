import numpy as np
import pytest

from edgeopt.commands.analyze import opportunities

IDS = "ids b n int64"
MASK = "attention_mask b n int64"
POOLED = "y b 8"


@pytest.fixture
def data(tmp_path):
    def write(*kept):
        masks = np.stack([(np.arange(64) < n).astype(np.int64) for n in kept])[:, None]
        np.savez(tmp_path / "data.npz", ids=masks, attention_mask=masks)
        return tmp_path / "data.npz"

    return write


def test_padded_data_is_told_with_its_share(view, data):
    (found,) = opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,), data=data(10, 20)))
    assert found.gain_share == 1 - 48 / 128
    assert "62% of your data is padding" in found.reason
    assert found.exact


def test_without_data_it_says_what_would_tell(view):
    (found,) = opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,)))
    assert found.gain_share is None
    assert "Pass --data" in found.reason


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ((IDS, MASK), "y b n 8"),  # a row for each place
        ((IDS, "attention_mask b 64 int64"), POOLED),
        ((IDS, "weights b n int64"), POOLED),
    ],
    ids=["rows", "fixed", "no-mask"],
)
def test_what_cannot_be_skipped_is_left_alone(view, inputs, output):
    assert list(opportunities.find_padding(view(inputs=inputs, outputs=(output,)))) == []


def test_full_data_is_left_alone(view, data):
    assert list(opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,), data=data(60, 64)))) == []
