import numpy as np
import pytest

from edgeopt.errors import ConstraintError, UsageError
from tests.conftest import seeded, write_onnx
from tests.search.conftest import search

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory, short_profile):
    """A search for the smallest files, however slow, of a model that is all weights."""
    folder = tmp_path_factory.mktemp("small")
    nodes = [("MatMul", ["x", "w"], ["y"], {})]
    model = write_onnx(folder / "m.onnx", nodes, {"w": seeded(128, 128)}, {"x": [1, 128]}, {"y": [1, 128]})
    data = {"x": np.random.default_rng(5).standard_normal((24, 1, 128)).astype(np.float32)}
    options = {"objective": "size", "max_latency_ms": 1000.0, "time_limit_s": 120, "floor": "15dB"}
    return search(model, folder, data=data, profile=short_profile, **options).outcome


def test_the_smallest_files_win_although_another_is_quicker(small):
    assert (small.objective, small.verdict, small.winner.variant) == ("size", "better", "int8")
    assert small.proof.figure < 0.5 * small.proof.baseline_figure
    assert "Size of the files" in small.summary
    assert small.proof.accuracy_db >= 15


def test_what_lost_says_by_what(small):
    sizes = [c.reason for c in small.candidates if c.status == "lost" and c.candidate != small.baseline]
    assert all("size of the files" in reason for reason in sizes)


def test_limits_that_nothing_keeps_to_are_an_error_and_no_bundle(tmp_path, conv_model, conv_data, short_profile):
    asked = {"data": conv_data, "profile": short_profile, "max_size_mib": 1e-4}
    with pytest.raises(ConstraintError, match="keeps to the limits") as caught:
        search(conv_model, tmp_path, **asked)
    assert "its files have" in caught.value.message
    assert not (tmp_path / "out.edgeopt").exists()


def test_a_search_ends_when_something_is_fast_enough(tmp_path, conv_model, short_profile, monkeypatch):
    """Anything is fast enough here, so nothing is made that the source does not need."""
    monkeypatch.setattr("edgeopt.search.settings.checked_target", lambda speedup: speedup)
    found = search(conv_model, tmp_path, profile=short_profile, target_speedup=0.01).outcome
    assert {c.candidate.variant for c in found.candidates} == {"source"}


def test_less_than_now_is_no_target(tmp_path, conv_model):
    with pytest.raises(UsageError, match="is no gain"):
        search(conv_model, tmp_path, target_speedup=0.9)
