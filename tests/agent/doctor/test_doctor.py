import json
import shutil
import socket
import sqlite3
import time

import pytest

from edgeopt_agent.main import run


@pytest.fixture
def doctor(capsys):
    """The exit code and the findings by their checks."""

    def ask(folder, *more):
        code = run(["doctor", "--json", "--port", "0", "--data-dir", str(folder), *map(str, more)])
        found = json.loads(capsys.readouterr().out.splitlines()[-1])["data"]["findings"]
        return code, {each["check"]: each for each in found}

    return ask


def test_a_fresh_device_is_well(doctor, tmp_path):
    code, found = doctor(tmp_path / "data")
    assert code == 0
    assert {"data folder", "disk", "journal", "clock", "links", "trust", "port", "runtimes"} < found.keys()
    assert {"descriptors", "memory", "worker network", "worker files", "worker memory"} < found.keys()
    assert all(each["advice"] for each in found.values() if each["health"] != "ok")
    assert not (tmp_path / "data").exists()


def test_it_reads_the_journal_of_an_agent_that_runs(doctor, start_serving, old_bundle):
    agent = start_serving()
    code, found = doctor(agent.data_dir, "--port", agent.port)
    assert code == 0, found
    assert found["journal"]["message"] == "Intact; 1 deployment."
    assert found["port"]["message"] == f"An edgeopt agent listens on {agent.port}."
    agent.serves(old_bundle)
    agent.stop()
    before = sorted(path.name for path in agent.data_dir.iterdir())
    assert doctor(agent.data_dir)[0] == 0
    assert sorted(path.name for path in agent.data_dir.iterdir()) == before


def health(found):
    return {name: each["health"] for name, each in found.items() if each["health"] == "problem"}


@pytest.fixture
def used(serving_folder, tmp_path):
    """The data folder of an agent that has served and stopped."""
    return shutil.copytree(serving_folder, tmp_path / "agent", symlinks=True)


def open_to_all(folder):
    folder.chmod(0o755)


def damaged_journal(folder):
    (folder / "state.db").write_bytes(b"SQLite format 3\0" + bytes(84) + b"damaged" * 1000)


def broken_record(folder):
    with sqlite3.connect(folder / "state.db") as db:
        db.execute("UPDATE deployments SET record = '{'")


def journal_of_tomorrow(folder):
    with sqlite3.connect(folder / "state.db") as db:
        db.execute("UPDATE events SET time_s = ?", (time.time() + 86400,))


def broken_link(folder):
    (folder / "current").unlink()
    (folder / "current").symlink_to("releases/gone")


def damaged_token(folder):
    (folder / "tokens" / "laptop.json").write_text("damaged")


def damaged_key(folder):
    (folder / "trust" / "key.pub").write_text("damaged")


def hook_without_permission(folder):
    (folder / "hooks").mkdir()
    (folder / "hooks" / "before-commit").write_text("#!/bin/sh\n")
    (folder / "hooks" / "before-commit").chmod(0o644)


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (hook_without_permission, "hook"),
        (open_to_all, "data folder"),
        (damaged_journal, "journal"),
        (broken_record, "journal"),
        (journal_of_tomorrow, "clock"),
        (broken_link, "links"),
        (damaged_token, "trust"),
        (damaged_key, "trust"),
    ],
)
def test_damage_is_a_problem_with_advice_and_exit_code_3(doctor, used, damage, check):
    damage(used)
    code, found = doctor(used)
    assert (code, health(found)) == (3, {check: "problem"})
    assert found[check]["advice"]


def test_a_port_of_another_program_is_a_problem(doctor, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeopt_agent.doctor.machine._ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, found = doctor(tmp_path, "--port", other.getsockname()[1])
    assert code == 3
    assert "Another program" in found["port"]["message"]


def test_an_address_that_others_reach_needs_a_key_and_a_token(doctor, tmp_path):
    code, found = doctor(tmp_path / "data", "--host", "0.0.0.0")  # noqa: S104 - nothing listens
    assert code == 3
    assert "trust add KEY.pub" in found["trust"]["advice"]
    assert "token add NAME" in found["trust"]["advice"]


def test_people_see_a_line_for_each_check(capsys, tmp_path):
    tmp_path.chmod(0o755)
    assert run(["doctor", "--port", "0", "--data-dir", str(tmp_path)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("PROBLEM data folder") and "chmod 700" in line for line in lines)
    assert any(line.startswith("ok      trust") for line in lines)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_port_of_grpc_is_checked_where_it_is_set(doctor, tmp_path):
    assert "gRPC port" not in doctor(tmp_path / "data")[1]
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        file = tmp_path / "agent.toml"
        file.write_text(f"grpc_port = {port}")
        code, found = doctor(tmp_path / "data", "--config", file)
    assert code == 3
    assert found["gRPC port"]["message"] == f"Another program listens on {port}."
    assert "--grpc-port" in found["gRPC port"]["advice"]
    assert doctor(tmp_path / "data", "--config", file)[1]["gRPC port"]["message"] == f"{port} is free."


def test_an_agent_with_tls_is_known_by_its_port(doctor, start_agent):
    agent = start_agent(tls="on")
    code, found = doctor(agent.data_dir, "--port", agent.port)
    assert code == 0, found
    assert found["port"]["message"] == f"An edgeopt agent listens on {agent.port}."


@pytest.mark.parametrize("link", ["current", "previous"])
def test_damaged_files_of_a_release_are_found(doctor, used, link):
    release = (used / "current").resolve()
    if link == "previous":
        (used / "current").rename(used / "previous")
    code, found = doctor(used)
    assert (code, found["release files"]["message"]) == (0, f"The digests of {release.name} hold.")
    file = release / "model" / "model.null.json"
    file.parent.chmod(0o700)
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[::-1])
    code, found = doctor(used)
    assert code == 3
    assert found["release files"]["message"].startswith(
        f"The bundle '{release.name}' is damaged: model/model.null.json"
    )


def test_advice_is_for_the_agent_that_runs(doctor, start_serving, tmp_path):
    agent = start_serving()
    file = tmp_path / "agent.toml"
    file.write_text(f"disk_reserve_bytes = {10**15}")
    _, found = doctor(agent.data_dir, "--config", file, "--port", 8080)
    assert f"edgeopt-agent gc --data-dir {agent.data_dir}`" in found["disk"]["advice"]
