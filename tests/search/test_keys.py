import msgspec
import numpy as np
import onnx
import pytest

from edgeopt.data.judging.goals import Goal
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.timing.courses import Course
from edgeopt.quant.records import QuantSettings
from edgeopt.search.making.messages import Make, Planning
from edgeopt.search.remembered import Keys, differences
from edgeopt.search.settings import Settings


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
    return Settings(tmp_path / "m.onnx", tmp_path / "out", tmp_path / "data", profile=tmp_path / "p.toml")


def change(path, old=None, new=None):
    content = path.read_bytes()
    path.write_bytes(content.replace(old, new) if old else content[:-1] + b"!")


CHANGES = {
    "the model": lambda folder: change(folder / "m.onnx", b"tiny", b"liny"),
    "its external data": lambda folder: change(folder / "weights.bin"),
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
    monkeypatch.setattr("edgeopt.search.remembered.code_digest", lambda: "of tomorrow")
    found.append(Keys(device).of_outcome(asked))
    monkeypatch.undo()
    monkeypatch.setattr("edgeopt.search.remembered.versions", lambda _: {"onnx": "9"})
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
        recipe="planned",
        source_path=str(asked.model),
        base_path=str(asked.model),
        out_path=str(tmp_path / "out.onnx"),
        samples_path=str(asked.data),
        check_first=2,
        check_count=2,
        calibration_count=2,
        settings=QuantSettings(),
        planning=Planning((Course("onnxruntime-cpu"),), Goal(), 12.3, profile_for(device, None, None)),
    )

    def key(limit_s=60.0, **changes):
        return Keys(device).of_variant(msgspec.structs.replace(job, **changes), limit_s)

    before = key()
    assert key(out_path="/elsewhere", planning=msgspec.structs.replace(job.planning, limit_s=11.0)) == before
    own = msgspec.structs.replace(job.planning, goal=Goal("mine.py:score", floor=1.0))
    assert key(planning=own) is None
    stricter = msgspec.structs.replace(job.planning, goal=Goal(floor=40.0))
    others = [key(120.0), key(check_count=1), key(recipe="int8"), key(planning=stricter)]
    assert len({before, *others}) == 5
    change(tmp_path / "weights.bin")
    assert key() != before
