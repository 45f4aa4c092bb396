import shutil
import time
from pathlib import Path

import msgspec
import pytest

from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import UsageError
from edgeopt.events import Log, Standing, ignore
from edgeopt.measure.host import LocalHost
from edgeopt.search.cache.user import listing
from edgeopt.search.making.messages import Made, Planned, Plans
from edgeopt.search.making.variants import Maker, make_all
from edgeopt.search.optimize import optimize
from edgeopt.search.remembered import Remembered
from edgeopt.search.settings import Settings
from tests.conftest import limited

SAYS = "From the cache, measured at "


@pytest.fixture
def cache(tmp_path, monkeypatch, make_cache):
    monkeypatch.setenv("EDGEOPT_CACHE", str(make_cache(tmp_path / "cache")))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    return tmp_path / "cache/searches"


@pytest.fixture
def quick(tmp_path, quick_profile):
    """One candidate and no time: over at once."""
    profile = tmp_path / "quick.toml"
    profile.write_text(limited(quick_profile.read_text(), 1, 1))
    return profile


@pytest.mark.timing
def test_the_same_search_again_is_answered_from_the_cache(cache, quick, relu_model, tmp_path):
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    if first.verdict == "undecided":
        pytest.skip("the machine is too busy to decide anything, and that is not kept as an answer")
    assert first.from_cache == ""
    for out, single_file in ((tmp_path / "again.edgeopt", False), (tmp_path / "file.edgeopt", True)):
        said = []
        begin = time.monotonic()
        again = optimize(relu_model, out, profile=quick, single_file=single_file, emit=said.append)
        assert time.monotonic() - begin < 2
        assert again.from_cache
        assert (again.proof, again.candidates, again.bundle) == (first.proof, first.candidates, str(out))
        assert out.is_file() == single_file
        assert read_bundle(out).deployment == read_bundle(tmp_path / "first.edgeopt").deployment
        assert any(isinstance(event, Log) and event.message.startswith(SAYS) for event in said)
        assert {e.candidate for e in said if isinstance(e, Standing)} == {
            c.candidate.name for c in first.candidates
        }
    manifests = [file_digest(tmp_path / name / FILE) for name in ("first.edgeopt", "again.edgeopt")]
    assert manifests[0] == manifests[1]
    settings = Settings(relu_model, tmp_path / "third.edgeopt", profile=quick, fresh=True)
    assert Remembered(settings, ignore).recall() is None
    assert {entry.kind for entry in listing().entries} == {"bundle"}  # nothing to clean in it: no variant

    (model,) = cache.glob("bundle-*/files/model/relu.onnx")
    model.write_bytes(model.read_bytes() + b"?")
    said = []
    third = Settings(relu_model, tmp_path / "third.edgeopt", profile=quick)
    assert Remembered(third, said.append).recall() is None
    assert not third.out.exists()
    assert [event.message for event in said if isinstance(event, Log) and "damaged" in event.message]
    assert listing().entries == ()


def test_an_undecided_search_is_done_again(cache, quick, relu_model, tmp_path):
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    again = Settings(relu_model, tmp_path / "again.edgeopt", profile=quick)
    kept = Remembered(Settings(relu_model, tmp_path / "first.edgeopt", profile=quick), ignore)
    kept.keep(msgspec.structs.replace(first, verdict="undecided"))
    said = []
    remembered = Remembered(again, said.append)
    assert remembered.recall() is None
    assert not again.out.exists()
    assert any(isinstance(event, Log) and "undecided" in event.message for event in said)
    assert remembered.known(tmp_path / "known").verdict == "undecided", "it can still be picked from"
    kept.keep(msgspec.structs.replace(first, verdict="keep what you have"))
    assert Remembered(again, ignore).recall() is not None


def test_a_pick_that_the_cache_does_not_have_says_what_is_different(cache, quick, relu_model, tmp_path):
    settings = Settings(relu_model, tmp_path / "first.edgeopt", profile=quick)
    with pytest.raises(UsageError, match=r"no finished search of relu\.onnx"):
        Remembered(settings, ignore).needed(tmp_path / "known")
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    assert first.is_cached, "the table offers --pick"
    assert Remembered(settings, ignore).needed(tmp_path / "known").candidates == first.candidates
    other = msgspec.structs.replace(settings, time_limit_s=7.0)
    with pytest.raises(UsageError, match=r"Different from .*: --time-limit \(not given then, 7\.0 now\)\."):
        Remembered(other, ignore).needed(tmp_path / "known")


def test_a_search_that_is_not_cached_offers_no_pick(cache, quick, relu_model, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "0")
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    assert not first.is_cached
    with pytest.raises(UsageError, match="no search cache"):
        optimize(relu_model, tmp_path / "second.edgeopt", profile=quick, pick="1")


@pytest.fixture
def job(tmp_path, conv_model, conv_data):
    """What a search asks for; each in a work folder of its own."""
    import numpy as np

    from edgeopt.data.samples import Samples, save_samples
    from edgeopt.quant.records import QuantSettings
    from edgeopt.search.making.messages import Make

    with np.load(conv_data) as archive:
        save_samples(Samples({"x": archive["x"]}, {"x": 4}), tmp_path / "samples")

    def ask(name, recipe="cleaned"):
        out = tmp_path / name / recipe / "model.onnx"
        out.parent.mkdir(parents=True)
        paths = (str(conv_model), str(conv_model), str(out), str(tmp_path / "samples"))
        return Make(recipe, *paths, 8, 4, 8, QuantSettings())

    return ask


@pytest.fixture
def memory(cache, conv_model, conv_data, tmp_path):
    def begin(emit=ignore, fresh=False):
        return Remembered(Settings(conv_model, tmp_path / "out", conv_data, fresh=fresh), emit).of_variants(60.0)

    return begin


def test_a_variant_is_kept_as_soon_as_it_is_made_and_is_not_made_again(memory, job, tmp_path):
    maker = Maker(LocalHost(tmp_path))
    try:
        found = make_all([maker], [job("first"), job("first", "no such")], time.monotonic() + 60, memory())
        (one, made) = next(found)
        assert isinstance(made, Made)
        assert [entry.title for entry in listing().entries] == ["conv.onnx: cleaned"]
        found.close()  # the search ends here
    finally:
        maker.close()
    said = []
    again = job("again")
    # Without anybody to make it.
    assert list(make_all([], [again], time.monotonic() + 60, memory(said.append))) == [(again, made)]
    assert Path(again.out_path).read_bytes() == Path(one.out_path).read_bytes()
    assert [event.message for event in said if isinstance(event, Log)]
    (late,) = make_all([], [job("fresh")], time.monotonic() + 60, memory(fresh=True))
    assert late[1].code == "late"


def test_plans_come_back_with_their_files_in_the_new_place(memory, job, conv_model):
    asked = job("first", "planned")
    folder = Path(asked.out_path).parent
    for place in ("openvino-cpu", "work"):
        (folder / place).mkdir()
        shutil.copyfile(conv_model, folder / place / "model.onnx")
    plan = Planned(
        "openvino-cpu", {"precision": "f32"}, str(folder / "openvino-cpu/model.onnx"), (), {"w8": ["a"]}
    )
    memory().learn(asked, Made((), 3.0, Plans((plan,), ("openvino-cpu",))))
    again = job("again", "planned")
    found = memory().find(again)
    moved = Path(again.out_path).parent / "openvino-cpu/model.onnx"
    assert (found.seconds, found.plans.variants[0].path, found.plans.covered) == (
        3.0,
        str(moved),
        ("openvino-cpu",),
    )
    assert moved.read_bytes() == conv_model.read_bytes()
    assert [p.name for p in moved.parents[1].iterdir()] == ["openvino-cpu"], "its work is not kept"
