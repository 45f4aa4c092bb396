import pytest

from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt.errors import UsageError
from edgeopt.search.optimize import optimize
from tests.conftest import write_onnx

pytestmark = pytest.mark.alone


@pytest.fixture
def nothing_to_turn(tmp_path, quick_profile):
    """A profile with which a search finds the source as it is, and nothing else."""
    profile = tmp_path / "still.toml"
    text = quick_profile.read_text().replace('"source", "cleaned", "lowered", "int8", "int8-dynamic"', '"source"')
    profile.write_text(text + "[runtime.onnxruntime-cpu]\nthreads = [0]\n[search]\ntime_limit_s = 2\n")
    return profile


def test_what_runs_today_is_kept_where_nothing_beats_it(conv_model, conv_bundle, nothing_to_turn, tmp_path):
    """Its own model again can never be claimed to be faster."""
    out = tmp_path / "new.edgeopt"
    found = optimize(conv_model, out, profile=nothing_to_turn, baseline=conv_bundle)
    assert (found.verdict, found.winner.variant) == ("keep what you have", "current")
    assert f"than {conv_bundle.name} inside 30 dB" in found.summary
    assert file_digest(out / FILE) == file_digest(conv_bundle / FILE)


def test_a_bundle_of_another_model_is_refused(conv_bundle, nothing_to_turn, tmp_path):
    other = write_onnx(tmp_path / "m.onnx", [("Relu", ["z"], ["y"], {})], {}, {"z": [1, 4]}, {"y": [1, 4]})
    with pytest.raises(UsageError, match=r"'conv\.edgeopt' takes x, and the model takes z"):
        optimize(other, tmp_path / "new.edgeopt", profile=nothing_to_turn, baseline=conv_bundle)
