import json
import os
from datetime import UTC, datetime

import pytest

from edgeopt.pipeline.cache.store import FILE, CacheRecord
from edgeopt.pipeline.cache.user import user_store

OLD, NEW = "a" * 64, "b" * 64


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Two entries, one of them not used for 10 days, and what another command keeps; beside something else."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDGEOPT_CACHE", str(folder))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "5MB")
    source = tmp_path / "source"
    source.write_bytes(b"m" * 1_500_000)
    store = user_store()
    for key, title in ((OLD, "conv.onnx: 2.1x faster"), (NEW, "conv.onnx: cleaned")):
        store.put("bundle", key, CacheRecord("bundle", title, datetime.now(UTC), {}), {"model.onnx": source})
    ten_days_ago = datetime.now(UTC).timestamp() - 10 * 86_400
    os.utime(store.folder / f"bundle-{OLD}" / FILE, (ten_days_ago, ten_days_ago))
    (folder / f"peaks-1-{OLD[:32]}.json").write_text("{}")
    (folder / "ops-of-mine").mkdir()
    return folder


def titles(out):
    return [entry["title"] for entry in json.loads(out)["data"]["entries"]]


def test_it_lists_what_is_kept_with_sizes_ages_and_the_limit(edgeopt_here, cache):
    code, out, err = edgeopt_here("cache", "list")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[-2:] for row in rows if row[:1] == ["bundle"]] == [["1.4", "MiB"]] * 2
    assert "10 days ago" in out
    assert "measured peaks" in out
    assert "2 entries" in out
    assert "2.9 MiB of 4.8 MiB at most" in " ".join(out.split())  # a long path above it breaks the line
    assert titles(edgeopt_here("cache", "list", "--json")[1]) == ["conv.onnx: cleaned", "conv.onnx: 2.1x faster"]


def test_it_clears_what_was_not_used_or_all(edgeopt_here, cache):
    code, out, _ = edgeopt_here("cache", "clear", "--older-than", "7", "--json")
    assert (code, titles(out)) == (0, ["conv.onnx: 2.1x faster"])
    assert "1.4 MiB are free again" in edgeopt_here("cache", "clear")[1]
    assert titles(edgeopt_here("cache", "list", "--json")[1]) == []
    assert sorted(p.name for p in cache.iterdir()) == ["ops-of-mine", f"peaks-1-{OLD[:32]}.json", "searches"]
    assert edgeopt_here("cache", "clear", "--all")[0] == 0
    assert sorted(p.name for p in cache.iterdir()) == ["ops-of-mine", "searches"]


def test_a_limit_that_is_none_is_wrong_usage(edgeopt_here, cache, monkeypatch):
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "plenty")
    code, out, err = edgeopt_here("cache", "list")
    assert (code, out) == (2, "")
    assert "'plenty'" in err
