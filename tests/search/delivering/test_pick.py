import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.errors import UsageError
from edgeopt.search.optimize import optimize
from edgeopt.search.outcome import in_order
from tests.conftest import limited

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(tmp_path, monkeypatch, quick_profile, conv_model):
    """A search with a cache of its own; its candidates are two variants that are exact."""
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    profile = tmp_path / "quick.toml"
    ladder = quick_profile.read_text().replace(', "lowered", "int8", "int8-dynamic"', "")
    profile.write_text(limited(ladder, 2, 8))
    return {"model": conv_model, "out": tmp_path / "out.edgeopt", "profile": profile}


def test_another_candidate_is_proved_and_written_without_searching_again(asked, tmp_path):
    with pytest.raises(UsageError, match=r"no finished search of conv\.onnx"):
        optimize(**asked, pick="1")

    first = optimize(**asked)
    listed = in_order(first)
    number, wanted = next((n, c) for n, c in enumerate(listed, 1) if c.candidate != first.winner)
    said = []
    picked = optimize(**{**asked, "out": tmp_path / "b.edgeopt"}, pick=str(number), emit=said.append)

    assert (picked.verdict, picked.winner) == ("picked", wanted.candidate)
    assert read_bundle(tmp_path / "b.edgeopt").deployment.run.backend == wanted.candidate.backend
    assert picked.proof.speedup.rounds >= 11
    # The numbers in the table stay what they were.
    assert [c.candidate for c in in_order(picked)] == [c.candidate for c in listed]
    assert picked.front == first.front
    assert "Compared with the winner of the search: " in picked.summary
    assert not {"racing", "tuning", "final"} & {getattr(event, "phase", "") for event in said}
    if first.verdict == "faster":
        assert first.winner.name in first.front
        (before,) = (c for c in picked.candidates if c.candidate == first.winner)
        assert "another one was picked" in before.reason

    with pytest.raises(UsageError, match="no candidate 'nonsense'") as caught:
        optimize(**asked, pick="nonsense")
    assert caught.value.hint.startswith("There are: ")
