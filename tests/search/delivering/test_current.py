import numpy as np
import pytest

from edgeopt.bundle.deployment import Run
from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.events import ignore
from edgeopt.search.optimize import optimize
from tests.bundle.conftest import post_model, pre_model
from tests.conftest import limited, still

KEPT = ("keep what you have", "undecided")
"""What is said of a kept model depends on how busy the machine is."""

pytestmark = pytest.mark.slow

__all__ = ["post_model", "pre_model"]  # fixtures of another folder


@pytest.fixture
def nothing_to_turn(tmp_path, quick_profile):
    """A profile with which a search finds the source as it is, and nothing else."""
    profile = tmp_path / "still.toml"
    text = quick_profile.read_text().replace('"source", "cleaned", "lowered", "int8", "int8-dynamic"', '"source"')
    profile.write_text(still(limited(text, 40, 2)))
    return profile


def test_what_runs_today_is_kept_where_nothing_beats_it(conv_model, conv_bundle, nothing_to_turn, tmp_path):
    """Its own model again can never be claimed to be faster."""
    out = tmp_path / "new.edgeopt"
    found = optimize(conv_model, out, profile=nothing_to_turn, baseline=conv_bundle)
    assert (found.verdict in KEPT, found.winner.variant) == (True, "current")
    assert found.verdict == "undecided" or f"than {conv_bundle.name} inside 30 dB" in found.summary
    assert file_digest(out / FILE) == file_digest(conv_bundle / FILE)


def test_a_model_that_runs_today_becomes_a_bundle_where_nothing_beats_it(
    conv_model, pre_model, post_model, nothing_to_turn, tmp_path
):
    """With its evidence and its processing, of data that is pre-processed for the search."""
    out, data = tmp_path / "new.edgeopt", tmp_path / "raw.npz"
    raw = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), np.uint8)
    np.savez(data, image=raw)
    found = optimize(
        conv_model, out, data=data, profile=nothing_to_turn, baseline=conv_model, pre=pre_model, post=post_model
    )
    assert (found.verdict in KEPT, found.winner.variant) == (True, "current")
    bundle, prepared = read_bundle(out), raw.transpose(0, 3, 1, 2).astype(np.float32) / 255
    assert bundle.deployment.run == Run("onnxruntime-cpu", f"model/{conv_model.name}")
    assert bundle.deployment.evidence.verdict == found.verdict
    assert bundle.deployment.processing.times.pre_ms > 0
    assert np.array_equal(bundle.golden("raw")[0]["image"], raw[-3:-2])
    assert np.allclose(bundle.golden("inputs")[0]["x"], prepared[-3:-2])
    assert check(out, ignore, model=conv_model).status == "valid"
