import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from edgeopt.bundle.deployment import Step
from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.commands.optimize import optimize
from edgeopt.data.judging.goals import Goal
from edgeopt.errors import UsageError
from edgeopt.events import Log, Standing, ignore
from edgeopt.hw.probe import probe
from edgeopt.pipeline.builders.messages import Made, Make, PlannedVariant, Planning, Plans
from edgeopt.pipeline.builders.variants import BuildWorker, make_all
from edgeopt.pipeline.cache.user import listing
from edgeopt.pipeline.recall import Keys, SearchCache, differences
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.records import QuantSettings
from edgeopt.workers.host import LocalHost
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
    settings = OptimizeRequest(relu_model, tmp_path / "third.edgeopt", profile=quick, fresh=True)
    assert SearchCache(settings, ignore).recall() is None
    assert {entry.kind for entry in listing().entries} == {"bundle"}  # nothing to clean in it: no variant

    (model,) = cache.glob("bundle-*/files/model/relu.onnx")
    model.write_bytes(model.read_bytes() + b"?")
    said = []
    third = OptimizeRequest(relu_model, tmp_path / "third.edgeopt", profile=quick)
    assert SearchCache(third, said.append).recall() is None
    assert not third.out.exists()
    assert [event.message for event in said if isinstance(event, Log) and "damaged" in event.message]
    assert listing().entries == ()


def test_an_undecided_search_is_done_again(cache, quick, relu_model, tmp_path):
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    again = OptimizeRequest(relu_model, tmp_path / "again.edgeopt", profile=quick)
    kept = SearchCache(OptimizeRequest(relu_model, tmp_path / "first.edgeopt", profile=quick), ignore)
    kept.keep(msgspec.structs.replace(first, verdict="undecided"))
    said = []
    remembered = SearchCache(again, said.append)
    assert remembered.recall() is None
    assert not again.out.exists()
    assert any(isinstance(event, Log) and "undecided" in event.message for event in said)
    assert remembered.known(tmp_path / "known").verdict == "undecided", "it can still be picked from"
    kept.keep(msgspec.structs.replace(first, verdict="keep what you have"))
    assert SearchCache(again, ignore).recall() is not None


def test_a_search_puts_the_tokenizer_of_the_model_into_the_bundle(cache, quick, relu_model, tmp_path):
    model = shutil.copy(relu_model, tmp_path / "m.onnx")
    write_text(tmp_path)
    optimize(model, tmp_path / "m.edgeopt", profile=quick)
    assert (read_bundle(tmp_path / "m.edgeopt").folder / "text/tokenizer.json").read_text() == "{}"


def write_text(folder):
    (folder / "m.text").mkdir()
    (folder / "m.text/tokenizer.json").write_text("{}")


def test_a_pick_that_the_cache_does_not_have_says_what_is_different(cache, quick, relu_model, tmp_path):
    settings = OptimizeRequest(relu_model, tmp_path / "first.edgeopt", profile=quick)
    with pytest.raises(UsageError, match=r"no finished search of relu\.onnx"):
        SearchCache(settings, ignore).needed(tmp_path / "known")
    first = optimize(relu_model, tmp_path / "first.edgeopt", profile=quick)
    assert first.is_cached, "the table offers --pick"
    assert SearchCache(settings, ignore).needed(tmp_path / "known").candidates == first.candidates
    other = msgspec.structs.replace(settings, time_limit_s=7.0)
    with pytest.raises(UsageError, match=r"Different from .*: --time-limit \(not given then, 7\.0 now\)\."):
        SearchCache(other, ignore).needed(tmp_path / "known")


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
    from edgeopt.pipeline.builders.messages import Make
    from edgeopt.quant.records import QuantSettings

    with np.load(conv_data) as archive:
        save_samples(Samples({"x": archive["x"]}, {"x": 4}), tmp_path / "samples")

    def ask(name, recipe="cleaned"):
        out = tmp_path / name / recipe / "model.onnx"
        out.parent.mkdir(parents=True)
        paths = (str(conv_model), str(conv_model), str(out), str(tmp_path / "samples"))
        return Make(Step(recipe), *paths, 8, 4, 8, QuantSettings())

    return ask


@pytest.fixture
def memory(cache, conv_model, conv_data, tmp_path):
    def begin(emit=ignore, fresh=False):
        return SearchCache(
            OptimizeRequest(conv_model, tmp_path / "out", conv_data, fresh=fresh), emit
        ).of_variants(60.0)

    return begin


def test_a_variant_is_kept_as_soon_as_it_is_made_and_is_not_made_again(memory, job, tmp_path):
    worker = BuildWorker(LocalHost(tmp_path))
    try:
        found = make_all([worker], [job("first"), job("first", "no such")], time.monotonic() + 60, memory())
        (one, made) = next(found)
        assert isinstance(made, Made)
        assert [entry.title for entry in listing().entries] == ["conv.onnx: cleaned"]
        found.close()  # the search ends here
    finally:
        worker.client.close()
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
    plan = PlannedVariant(
        "openvino-cpu",
        {"precision": "f32"},
        str(folder / "openvino-cpu/model.onnx"),
        (),
        Step("planned", forms={"w8": ["a"]}),
    )
    memory().store_variant(asked, Made(Step("planned"), (), 3.0, Plans((plan,), ("openvino-cpu",))))
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


@pytest.fixture(scope="module")
def device():
    return probe()


@pytest.fixture
def asked(tmp_path, matmul_model, quick_profile):
    """What a search depends on, in files that a test may change; the weights lie beside the model."""
    model = onnx.load(matmul_model)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data/x.npy", np.ones((4, 32), np.float32))
    (tmp_path / "p.toml").write_text(quick_profile.read_text())
    return OptimizeRequest(tmp_path / "m.onnx", tmp_path / "out", tmp_path / "data", profile=tmp_path / "p.toml")


def change(path, old=None, new=None):
    content = path.read_bytes()
    path.write_bytes(content.replace(old, new) if old else content[:-1] + b"!")


CHANGES = {
    "the model": lambda folder: change(folder / "m.onnx", b"tiny", b"liny"),
    "its external data": lambda folder: change(folder / "weights.bin"),
    "the tokenizer": write_text,
    "the data": lambda folder: change(folder / "data/x.npy"),
    "another sample": lambda folder: (folder / "data/y.npy").write_bytes(b""),
    "the profile": lambda folder: change(folder / "p.toml", b"int8-dynamic", b"fp16"),
}


@pytest.mark.parametrize("how", CHANGES.values(), ids=CHANGES)
def test_files_that_change_are_another_search(asked, device, tmp_path, how):
    before = Keys(device).of_outcome(asked)
    assert before
    assert Keys(device).of_outcome(asked) == before
    how(tmp_path)
    assert Keys(device).of_outcome(asked) not in {before, None}


def test_so_are_other_settings_devices_and_versions(asked, device, monkeypatch):
    before = Keys(device).of_outcome(asked)
    others = [{"floor": "20dB"}, {"max_size_mib": 8.0}, {"time_limit_s": 5.0}, {"data": None}]
    found = [Keys(device).of_outcome(msgspec.structs.replace(asked, **other)) for other in others]
    fewer = msgspec.structs.replace(device.limits, usable_cores=device.limits.usable_cores + 1)
    found.append(Keys(msgspec.structs.replace(device, limits=fewer)).of_outcome(asked))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found.append(Keys(device).of_outcome(asked))
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("edgeopt.pipeline.recall.code_digest", lambda: "of tomorrow")
    found.append(Keys(device).of_outcome(asked))
    monkeypatch.undo()
    monkeypatch.setattr("edgeopt.pipeline.recall.versions", lambda _: {"onnx": "9"})
    found.append(Keys(device).of_outcome(asked))
    assert len({before, *found}) == len(found) + 1


def test_pillow_counts_only_where_pictures_may_be_read(asked, device, tmp_path, monkeypatch):
    np.savez(tmp_path / "data.npz", x=np.ones((4, 32), np.float32))
    arrays = msgspec.structs.replace(asked, data=tmp_path / "data.npz")
    versions = {}
    monkeypatch.setattr("importlib.metadata.version", lambda name: versions.get(name, "1"))
    before = [Keys(device).of_outcome(each) for each in (arrays, asked)]
    versions["pillow"] = "2"
    after = [Keys(device).of_outcome(each) for each in (arrays, asked)]
    assert after[0] == before[0]
    assert after[1] != before[1]
    versions["onnx"] = "2"
    assert Keys(device).of_outcome(arrays) != before[0]


def test_what_changed_between_two_searches_is_said_in_words(asked, device, tmp_path, monkeypatch):
    keys = Keys(device)
    before = keys.parts(asked)
    assert differences(before, before) == []
    change(tmp_path / "data/x.npy")
    keys.common["libraries"]["nncf"] = "9.9"
    keys.common["device"]["limits"] = "other"
    now = keys.parts(msgspec.structs.replace(asked, time_limit_s=30.0, single_file=True))
    installed = before.get("nncf")
    assert set(differences(now, before)) == {
        "the content of --data",
        "--time-limit (not given then, 30.0 now)",
        f"nncf ({installed} then, 9.9 now)" if installed else "nncf (only now)",
        "the CPU and memory limits",
    }


def test_the_same_goal_in_other_words_is_the_same_search(asked, device):
    named = msgspec.structs.replace(asked, floor="transparent")
    assert Keys(device).of_outcome(named) == Keys(device).of_outcome(asked)


def test_nobody_knows_what_a_metric_of_ones_own_reads(asked, device, tmp_path):
    (tmp_path / "mine.py").write_text("def score(outputs, reference, labels):\n    return 1.0\n")
    own = msgspec.structs.replace(asked, metric=f"{tmp_path}/mine.py:score", floor="1")
    assert Keys(device).of_outcome(own) is None


def test_where_the_bundle_goes_is_no_matter(asked, device, tmp_path):
    before = Keys(device).of_outcome(asked)
    elsewhere = msgspec.structs.replace(asked, out=tmp_path / "b", single_file=True, fresh=True)
    assert Keys(device).of_outcome(elsewhere) == before


def test_what_cannot_be_read_has_no_key(asked, device, tmp_path):
    assert Keys(device).of_outcome(msgspec.structs.replace(asked, model=tmp_path / "nowhere.onnx")) is None
    change(tmp_path / "m.onnx", b"weights.bin", b"../../x.bin")
    assert Keys(device).of_outcome(asked) is None


def test_a_variant_is_known_by_what_it_is_made_of(asked, device, tmp_path):
    job = Make(
        step=Step("planned"),
        source_path=str(asked.model),
        base_path=str(asked.model),
        out_path=str(tmp_path / "out.onnx"),
        samples_path=str(asked.data),
        check_first=2,
        check_count=2,
        calibration_count=2,
        settings=QuantSettings(),
        planning=Planning((ExecutionConfig("onnxruntime-cpu"),), Goal(), 12.3, profile_for(device, None, None)),
    )

    def key(limit_s=60.0, **changes):
        return Keys(device).of_variant(msgspec.structs.replace(job, **changes), limit_s)

    before = key()
    assert key(out_path="/elsewhere", planning=msgspec.structs.replace(job.planning, limit_s=11.0)) == before
    own = msgspec.structs.replace(job.planning, goal=Goal("mine.py:score", floor=1.0))
    assert key(planning=own) is None
    stricter = msgspec.structs.replace(job.planning, goal=Goal(floor=40.0))
    others = [key(120.0), key(check_count=1), key(step=Step("int8")), key(planning=stricter)]
    assert len({before, *others}) == 5
    change(tmp_path / "weights.bin")
    assert key() != before
