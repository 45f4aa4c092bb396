import os
import shutil

import pytest

from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt_agent.data_dir import open_data_dir, point
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.releases import (
    KEPT_LOGS,
    check_space,
    list_releases,
    model_bytes,
    prune,
    prune_logs,
    release_id,
)


@pytest.fixture
def data(tmp_path, old_bundle):
    """A data folder with three releases: one serves, one served before."""
    with open_data_dir(tmp_path / "data") as data:
        for name in ("serves", "served", "other"):
            shutil.copytree(old_bundle, data.release(name))
        point(data.current, "serves")
        point(data.previous, "served")
        yield data


def test_a_release_is_named_by_its_manifest(old_bundle, new_bundle):
    assert release_id(old_bundle) == file_digest(old_bundle / FILE)[:12]
    assert release_id(old_bundle) != release_id(new_bundle)


def test_pruning_removes_only_garbage_and_never_what_the_links_lead_to(data):
    prune(data, set())
    assert len(list(data.releases.iterdir())) == 3
    prune(data, {"serves", "served", "other"})
    assert sorted(folder.name for folder in data.releases.iterdir()) == ["served", "serves"]


def test_the_list_tells_what_each_is_and_why_it_is_refused(data):
    failed = {name: Record(id=1, release=name, name="bad", reason="NaN") for name in ("gone", "serves")}
    refused = [
        Record(id=4, release="other", name="null", reason="not signed"),
        Record(id=3, release="gone", name="bad", reason="NaN"),
        Record(id=2, name="cut.edgeopt", reason="damaged"),
    ]
    found = [(r.id, r.state, r.name, r.reason) for r in list_releases(data, failed, refused)]
    assert found == [
        ("serves", "serving", "null", ""),
        ("served", "previous", "null", ""),
        ("other", "kept", "null", ""),
        ("gone", "quarantined", "bad", "NaN"),
        ("other", "refused", "null", "not signed"),
        ("", "refused", "cut.edgeopt", "damaged"),
    ]


def test_one_that_cannot_be_read_does_not_hide_the_others(data):
    (data.release("other") / "deployment.toml").write_text("name = ")
    found = list_releases(data, {}, [])
    assert "cannot be read" in next(r.reason for r in found if r.id == "other")
    assert len(found) == 3


def test_only_the_model_counts_for_memory(data):
    folder = data.release("serves")
    assert model_bytes(folder) == (folder / "model" / "model.null.json").stat().st_size


def test_space_is_checked_twice_over(data):
    free = shutil.disk_usage(data.root).free
    check_space(data, 1000, 0)
    with pytest.raises(RefusedError, match=r"is full: the bundle needs .* GiB") as refused:
        check_space(data, free * 3 // 4, 0)
    assert refused.value.status == 507


def test_old_logs_go(data):
    for number in range(KEPT_LOGS + 3):
        log = data.logs / f"worker-{number}.log"
        log.touch()
        os.utime(log, (number, number))
    prune_logs(data)
    kept = {log.name for log in data.logs.iterdir()}
    assert kept == {f"worker-{number}.log" for number in range(3, KEPT_LOGS + 3)}
