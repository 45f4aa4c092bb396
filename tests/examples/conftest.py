import numpy as np
import pytest

from tests.pages import Reader


@pytest.fixture
def reader(tmp_path):
    """Types commands in a folder with a link to `examples`."""
    made = Reader(tmp_path)
    yield made
    made.stop_server()


@pytest.fixture
def pictures(reader):
    """Ten samples for the convolution."""
    arrays = np.random.default_rng(5).standard_normal((10, 1, 3, 16, 16)).astype(np.float32)
    np.savez(reader.folder / "data.npz", x=arrays)
    return arrays
