import multiprocessing
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from edgeopt.errors import UsageError
from edgeopt.pipeline.cache.store import FILE, FILES, CacheRecord, Store

KEY, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A store with room for 10 kB, what it says, and a way to keep so many bytes under a key."""
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "10kB")

    class Kept:
        def __init__(self):
            self.said = []
            self.folder = tmp_path / "cache"
            self.store = Store(self.folder, self.said.append)

        def put(self, key=KEY, size=1000, **more):
            source = tmp_path / "source.bin"
            source.write_bytes(key[:1].encode() * size)
            self.store.put("thing", key, record(), {"model.onnx": source, "weights/w.bin": source}, **more)

        def get(self, key=KEY):
            into = tmp_path / "into"
            found = self.store.get("thing", key, into)
            files = {f.relative_to(into).as_posix(): f.read_bytes() for f in into.rglob("*") if f.is_file()}
            for file in into.rglob("*.*"):
                file.unlink()
            return found and found.document, files

        def place(self, key=KEY):
            return self.folder / f"thing-{key}"

    return Kept()


def record(title="a thing"):
    return CacheRecord("thing", title, datetime.now(UTC), {}, b"how it was made")


def test_what_was_kept_comes_back_with_its_document(kept):
    assert kept.get() == (None, {})
    kept.put()
    assert kept.get() == (b"how it was made", {"model.onnx": b"a" * 1000, "weights/w.bin": b"a" * 1000})
    (entry,) = kept.store.entries()
    assert (entry.title, entry.size_bytes) == ("a thing", 2015)
    assert [p.name for p in kept.folder.iterdir()] == [f"thing-{KEY}"]
    assert kept.said == []


def edit(file):
    content = file.read_bytes()
    file.write_bytes(content[:-3] + b"??" + content[-1:])


DAMAGE = {
    "a file is changed": lambda place: edit(place / FILES / "model.onnx"),
    "a file is cut off": lambda place: (place / FILES / "weights/w.bin").write_bytes(b"a" * 999),
    "a file is gone": lambda place: (place / FILES / "model.onnx").unlink(),
    "the record is changed": lambda place: edit(place / FILE),
    "the record is empty": lambda place: (place / FILE).write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_dropped_said_once_and_made_again(kept, damage):
    kept.put()
    damage(kept.place())
    assert kept.get() == (None, {})
    assert kept.get() == (None, {})
    (said,) = kept.said
    assert "damaged" in said
    kept.put()
    assert kept.get()[0]


def test_beyond_the_limit_the_least_recently_used_go(kept):
    for place, key in enumerate("abcd"):
        kept.put(key * 64)
        os.utime(kept.place(key * 64) / FILE, (1000 + place, 1000 + place))
    kept.get("a" * 64)  # used again, so the others are older
    kept.put("e" * 64, size=2500)
    assert sorted(entry.name[-1] for entry in kept.store.entries()) == ["a", "d", "e"]
    kept.put("f" * 64, size=6000)
    assert not kept.place("f" * 64).exists(), "larger than all that may be kept"
    assert sum(entry.size_bytes for entry in kept.store.entries()) <= 10_000
    assert kept.said == []


def test_a_second_one_takes_the_place_of_the_first(kept):
    kept.put()
    kept.store.put("thing", KEY, record("another"), {})
    assert [entry.title for entry in kept.store.entries()] == ["another"]
    assert kept.get() == (b"how it was made", {})


def test_clearing_leaves_what_it_did_not_write(kept):
    kept.put()
    kept.put(OTHER)
    (kept.place() / FILE).write_bytes(b"damaged")
    mine = kept.folder / "thing-of-mine"
    mine.mkdir()
    old = datetime.now(UTC) - timedelta(days=1)
    assert kept.store.clear(unused_since=old) == []  # the damaged one goes with any
    assert [entry.name for entry in kept.store.clear()] == [f"thing-{OTHER}"]
    assert list(kept.folder.iterdir()) == [mine]


def test_what_a_killed_process_left_is_swept_up(kept):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = [kept.folder / f".{word}-{int(gone.stdout)}-abc" for word in ("part", "gone")]
    alive = kept.folder / f".part-{os.getpid()}-abc"
    for folder in (*left, alive):
        folder.mkdir()
    Store(kept.folder)
    assert list(kept.folder.iterdir()) == [alive]


def test_a_folder_that_cannot_be_used_is_said_once_and_stops_nothing(kept, tmp_path):
    (tmp_path / "file").write_text("no folder")
    kept.store = Store(tmp_path / "file/cache", kept.said.append)
    kept.put()
    assert kept.get() == (None, {})
    (said,) = kept.said
    assert "Not a directory" in said
    kept.said.clear()
    kept.store = Store(None, kept.said.append)
    kept.put()
    assert kept.store.clear() == []
    assert kept.said == []


def test_a_full_disk_is_said_once_and_leaves_what_was_kept(kept, full_disk):
    kept.folder, fill = full_disk
    kept.store = Store(kept.folder, kept.said.append)
    kept.put()
    fill()
    for key in ("c" * 64, "d" * 64):
        kept.put(key, size=4500)
    (said,) = kept.said
    assert said == f"The search cache {kept.folder} is not used: No space left on device."
    assert sorted(p.name for p in kept.folder.iterdir()) == ["filler", f"thing-{KEY}"]
    kept.store = Store(kept.folder, kept.said.append)
    assert kept.get()[0], "what was kept before is still good"


@pytest.mark.parametrize(("told", "size"), [("0", 0), ("500MB", 500_000_000), ("1.5 GiB", 1_610_612_736)])
def test_the_limit_is_what_the_user_says(tmp_path, monkeypatch, told, size):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", told)
    assert Store(tmp_path).limit_bytes == size


def test_a_limit_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "much")
    with pytest.raises(UsageError, match="not a size"):
        Store(tmp_path)
    monkeypatch.delenv("EDGEOPT_CACHE_LIMIT")
    assert 0 < Store(tmp_path).limit_bytes <= 2_000_000_000


def test_an_entry_that_is_replaced_and_dropped_while_it_is_read_is_not_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "70kB")
    said = []
    store, other = Store(tmp_path / "cache", said.append), Store(tmp_path / "cache")
    (tmp_path / "source").write_bytes(b"first")
    store.put("thing", KEY, record(), {"one": tmp_path / "source"})
    copy = shutil.copyfile

    def replaced(source, target):
        monkeypatch.setattr("shutil.copyfile", copy)
        (tmp_path / "source").write_bytes(b"second")
        other.put("thing", KEY, record(), {"one": tmp_path / "source"})
        copy(source, target)
        other.drop("thing", KEY)

    monkeypatch.setattr("shutil.copyfile", replaced)
    assert store.get("thing", KEY, tmp_path / "into") is None
    assert said == []


def hammer(folder, number, problems):
    """Keeps and takes the same two keys; whatever is taken must be whole."""
    store = Store(folder, problems.put)
    source = folder.parent / f"source-{number}"
    for turn in range(30):
        key = KEY if turn % 2 else OTHER
        source.write_bytes(bytes([number]) * 20_000)
        store.put("thing", key, record(), {"one": source, "two": source})
        into = folder.parent / f"into-{number}-{turn}"
        if (
            store.get("thing", key, into) is not None
            and (into / "one").read_bytes() != (into / "two").read_bytes()
        ):
            problems.put(f"half of {key[0]}")
    problems.put(None if store.on else "turned off")


def test_processes_at_once_see_whole_entries_or_none(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "70kB")
    spawn = multiprocessing.get_context("spawn")
    problems = spawn.Queue()
    processes = [spawn.Process(target=hammer, args=(tmp_path / "cache", n, problems)) for n in (1, 2, 3)]
    for process in processes:
        process.start()
    told = [problems.get(timeout=60)]
    while told.count(None) < len(processes) and told[-1] is None:
        told.append(problems.get(timeout=60))
    for process in processes:
        process.join(60)
    assert [one for one in told if one is not None] == []
    assert all(not p.name.startswith(".") for p in (tmp_path / "cache").iterdir())
