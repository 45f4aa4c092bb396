import os
import shutil

import pytest

from edgeopt import units
from edgeopt.bundle.manifest import FILE, file_digest, release_id
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import BundleError, DiskFullError, InputError, UsageError
from edgeopt_agent import tokens, trust, trusted_keys
from edgeopt_agent.data_dir import DataDir, open_data_dir, point
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.main import run
from edgeopt_agent.releases import (
    KEPT_LOGS,
    check_space,
    list_releases,
    model_bytes,
    prune,
    prune_logs,
)
from edgeopt_agent.retention import pin, pinned, unpin
from edgeopt_agent.trust import TrustWatch, check_host, check_signature


@pytest.fixture
def trusted(tmp_path):
    """A folder with one trusted key, and the private key that belongs to it."""
    folder = tmp_path / "trust"
    folder.mkdir()
    new_key(tmp_path / "key")
    shutil.copyfile(tmp_path / "key.pub", folder / "one.pub")
    return folder, tmp_path / "key"


def test_without_a_key_any_bundle_will_do(bundle, tmp_path):
    assert check_signature(bundle, tmp_path) == ""


def test_with_a_key_only_what_it_signed(bundle, trusted):
    folder, key = trusted
    with pytest.raises(BundleError, match="not signed"):
        check_signature(bundle, folder)
    sign_bundle(bundle, key)
    assert check_signature(bundle, folder)
    (bundle / "manifest.json").write_bytes((bundle / "manifest.json").read_bytes() + b" ")
    with pytest.raises(BundleError):
        check_signature(bundle, folder)


def test_another_key_is_not_trusted(bundle, trusted, tmp_path):
    new_key(tmp_path / "other")
    sign_bundle(bundle, tmp_path / "other")
    with pytest.raises(BundleError):
        check_signature(bundle, trusted[0])


def test_what_answers_say_follows_the_folder(trusted, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    watch = TrustWatch(empty)
    assert watch() == "unsigned"
    shutil.copyfile(trusted[0] / "one.pub", empty / "one.pub")
    assert watch() == "signed"


def test_a_key_that_comes_within_one_tick_of_the_clock_of_the_disk_is_seen(trusted, tmp_path):
    folder = tmp_path / "changing"
    folder.mkdir()
    watch, now = TrustWatch(folder), folder.stat()
    assert watch() == "unsigned"
    shutil.copyfile(trusted[0] / "one.pub", folder / "one.pub")
    os.utime(folder, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert watch() == "signed"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.4.5"])
def test_this_device_may_always_ask(host, tmp_path):
    check_host(host, DataDir(tmp_path))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "device.example"])  # noqa: S104 - refused here
def test_others_only_with_a_token_and_a_trusted_key(host, tmp_path, trusted):
    with pytest.raises(UsageError, match="has no access token yet, so") as refused:
        check_host(host, DataDir(tmp_path))
    assert f"token add NAME --role deploy --data-dir {tmp_path}" in refused.value.hint
    assert "trust add" not in refused.value.hint
    tokens.add(tmp_path, "laptop", "view")
    check_host(host, DataDir(tmp_path))
    shutil.rmtree(trusted[0])
    with pytest.raises(UsageError, match="The agent trusts no key yet, so") as refused:
        check_host(host, DataDir(tmp_path))
    assert "trust add" in refused.value.hint
    with pytest.raises(UsageError, match="has no access token yet and trusts no key yet"):
        check_host(host, DataDir(tmp_path / "none"))


def test_a_folder_that_is_gone_keeps_no_answer_back(trusted):
    watch = TrustWatch(trusted[0])
    assert watch() == "signed"
    shutil.rmtree(trusted[0])
    assert watch() == "signed"


def test_keys_that_cannot_be_seen_are_not_no_keys(bundle, tmp_path):
    (tmp_path / "trust").write_text("in its place")
    with pytest.raises(OSError, match="trust"):
        check_signature(bundle, tmp_path / "trust")


@pytest.fixture
def public(tmp_path):
    made = new_key(tmp_path / "key")
    return tmp_path / "key.pub", made.key_id


def test_a_key_is_added_listed_and_removed(tmp_path, public):
    file, key_id = public
    home = tmp_path / "agent"
    assert trusted_keys.trusted(home).keys == ()
    assert not home.exists()
    for _ in range(2):
        assert [key.id for key in trusted_keys.add(home, file).keys] == [key_id]
    assert trust.trust_of(home / "trust") == "signed"
    assert home.stat().st_mode & 0o777 == (home / "trust").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (home / "trust").iterdir()] == [f"{key_id}.pub"]
    assert trusted_keys.remove(home, key_id).keys == ()
    assert trust.trust_of(home / "trust") == "unsigned"


def test_removing_what_is_not_trusted_names_what_is(tmp_path, public):
    file, key_id = public
    with pytest.raises(InputError, match="No key 'x'") as caught:
        trusted_keys.remove(tmp_path, "x")
    assert "no key" in caught.value.hint
    trusted_keys.add(tmp_path, file)
    with pytest.raises(InputError) as caught:
        trusted_keys.remove(tmp_path, "../../key")
    assert key_id in caught.value.hint


def test_what_is_no_public_key_is_not_trusted(tmp_path, public):
    with pytest.raises(InputError, match="private key"):
        trusted_keys.add(tmp_path / "agent", tmp_path / "key")
    assert trusted_keys.trusted(tmp_path / "agent").keys == ()


def test_half_a_key_is_never_left(tmp_path, public, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DiskFullError, match=r"no room for .*pub'"):
        trusted_keys.add(tmp_path / "agent", public[0])
    assert list((tmp_path / "agent/trust").iterdir()) == []
    assert trusted_keys.trusted(tmp_path / "agent").keys == ()
    monkeypatch.undo()
    assert len(trusted_keys.add(tmp_path / "agent", public[0]).keys) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_adds_belongs_to_the_service(tmp_path, public):
    home = tmp_path / "agent"
    home.mkdir()
    os.chown(home, 12345, 23456)
    trusted_keys.add(home, public[0])
    for path in (home / "trust", home / "trust" / f"{public[1]}.pub"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


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
    with pytest.raises(RefusedError) as refused:
        check_space(data, free * 3 // 4, 0)
    assert refused.value.status == 507


def test_bundle_and_reserve_are_told_apart(data):
    reserve_bytes = shutil.disk_usage(data.root).total
    reserve = units.size(reserve_bytes)
    with pytest.raises(RefusedError) as refused:
        check_space(data, 3 << 20, reserve_bytes)
    said = f"The bundle of 3 MiB needs 6 MiB, packed and unpacked, and {reserve} stay free (`disk_reserve_bytes`)."
    assert said in refused.value.message
    with pytest.raises(RefusedError, match="The bundle of 3 MiB needs 4 MiB"):
        check_space(data, 3 << 20, reserve_bytes, 2 << 20)


def test_old_logs_go(data):
    for number in range(KEPT_LOGS + 3):
        log = data.logs / f"worker-{number}.log"
        log.touch()
        os.utime(log, (number, number))
    prune_logs(data)
    kept = {log.name for log in data.logs.iterdir()}
    assert kept == {f"worker-{number}.log" for number in range(3, KEPT_LOGS + 3)}


def test_a_log_that_others_remove_meanwhile_is_passed_over(data):
    for number in range(KEPT_LOGS + 1):
        (data.logs / f"worker-{number}.log").touch()
    (data.logs / "worker-gone.log").symlink_to(data.logs / "removed")
    prune_logs(data)
    assert len([log for log in data.logs.iterdir() if log.exists()]) == KEPT_LOGS


def test_the_releases_of_a_model_that_is_being_deleted_are_none(data):
    shutil.rmtree(data.releases)
    assert list_releases(data, {}, []) == []


@pytest.fixture(scope="module")
def bundles(make_null_bundle):
    """Six sound releases that answer differently."""
    return [make_null_bundle(model={"noise": 0.1 * k}) for k in range(6)]


def on_disk(agent):
    return {folder.name for folder in (agent.data_dir / "releases").iterdir()}


def ids(bundles):
    return {release_id(bundle) for bundle in bundles}


def collect(agent, dry_run=0):
    return agent.ask("POST", f"/api/v1/gc?dry_run={dry_run}")[2]["releases"]


def deploy_all(agent, bundles):
    for bundle in bundles:
        assert agent.deploy(bundle)["state"] == "COMMITTED"
    agent.settled()


def test_three_releases_besides_the_two_in_service_are_kept_and_can_be_gone_back_to(start_agent, bundles):
    agent = start_agent()
    deploy_all(agent, bundles)
    assert on_disk(agent) == ids(bundles[1:])
    status, _, answer = agent.ask("POST", f"/api/v1/rollback?to={release_id(bundles[1])}")
    assert status == 202
    assert agent.ended(answer["deployment"]["id"])["state"] == "COMMITTED"
    agent.serves(bundles[1])


def test_a_restart_keeps_what_is_kept(start_agent, bundles):
    agent = start_agent()
    deploy_all(agent, bundles[:4])
    agent.stop()
    agent = start_agent()
    agent.serves(bundles[3])
    assert on_disk(agent) == ids(bundles[:4])


def test_a_pinned_release_stays_until_it_is_unpinned(start_agent, bundles, capsys):
    agent = start_agent(keep=0)
    deploy_all(agent, bundles[:1])
    first = release_id(bundles[0])
    assert run(["pin", first, "--data-dir", str(agent.data_dir)]) == 0
    deploy_all(agent, bundles[1:4])
    assert on_disk(agent) == ids([bundles[0], *bundles[2:4]])
    listed = {each["id"]: each["pinned"] for each in agent.ask("GET", "/api/v1/releases")[2]["releases"]}
    assert [name for name, is_pinned in listed.items() if is_pinned] == [first]
    assert collect(agent) == []
    assert run(["unpin", first, "--data-dir", str(agent.data_dir)]) == 0
    capsys.readouterr()
    assert run(["gc", "--dry-run", "--url", f"127.0.0.1:{agent.port}"]) == 0
    assert first in capsys.readouterr().out
    assert first in on_disk(agent)
    assert run(["gc", "--url", f"127.0.0.1:{agent.port}"]) == 0
    assert on_disk(agent) == ids(bundles[2:4])
    agent.serves(bundles[3])


def test_a_folder_that_the_journal_does_not_name_is_never_collected(start_agent, bundles):
    agent = start_agent(keep=0)
    deploy_all(agent, bundles[:2])
    foreign = agent.data_dir / "releases" / "0123456789ab"
    foreign.mkdir()
    assert collect(agent) == []
    assert foreign.is_dir()


def test_a_way_back_that_is_cancelled_does_not_remove_the_release(start_agent, make_null_bundle, bundles):
    agent = start_agent()
    slow = make_null_bundle(load_ms=1000)
    deploy_all(agent, [slow, *bundles[:2]])
    status, _, answer = agent.ask("POST", f"/api/v1/rollback?to={release_id(slow)}")
    assert status == 202
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(answer["deployment"]["id"])["state"] == "FAILED"
    assert release_id(slow) in on_disk(agent)


def test_pins_are_of_releases_that_are_there(tmp_path):
    data = DataDir(tmp_path)
    (tmp_path / "releases" / "ab").mkdir(parents=True)
    for name in ("cd", "../x", ""):
        with pytest.raises(InputError, match="There is no release"):
            pin(data, name)
    with pytest.raises(InputError, match="not pinned"):
        unpin(data, "ab")
    assert pin(data, "ab").pins == ("ab",)
    assert pinned(data) == {"ab"}
    assert unpin(data, "ab").pins == ()
