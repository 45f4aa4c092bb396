import pytest

from edgeopt.errors import InputError
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.main import run
from edgeopt_agent.releases import release_id
from edgeopt_agent.retention import pin, pinned, unpin


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
    slow = make_null_bundle(load_ms=1500)
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
