"""A client with a token that tries to run something else, or to reach files outside."""

import hashlib
import io
import json

import pytest

from edgeopt.cli.main import run
from edgeopt.errors import EdgeoptError
from edgeopt.options import options_of
from edgeopt.remote.address import read_address
from edgeopt.remote.command import opened
from edgeopt.remote.far import RefusedError
from edgeopt.remote.files import place
from edgeopt.version import __version__
from edgeopt_agent.http.trials import PATH
from edgeopt_agent.trials.allowed import OPTIONS, REQUESTS, checked

NOTHING = {"files": [], "python": "", "code": "", "environment": {}}


def stored(link, content=b"x"):
    digest = hashlib.sha256(content).hexdigest()
    link.put(digest, io.BytesIO(content), len(content), lambda _: None)
    return digest


MESSAGES = (
    {"do": "begin", "run": "2", "owner": {}},
    {"do": "begin", "run": "../../..", "owner": {}},
    {"do": "have", "digests": ["../../tokens/x"]},
    {"do": "put", "digest": "../../../lock", "bytes": 0},
    {"do": "install", "version": "1", "code": "0" * 64, "name": "../x", "requirements": ["evil"]},
    {"do": "get", "path": "/etc/passwd"},
    {"do": "get", "path": "../../../state.db"},
    {"do": "get", "path": "out"},
    {"do": "get"},
    {"do": "open"},
    {"do": ["get"]},
    {"do": "run", "arguments": ["deploy", "--json"], **NOTHING},
)


def test_messages_are_refused_and_the_session_goes_on(link):
    for message in MESSAGES:
        with pytest.raises(EdgeoptError, match=r"refused|takes|runs|has edgeopt"):
            link.ask(message)
        assert link.ask({"do": "have", "digests": []}) == {"missing": []}, message


@pytest.mark.parametrize("place", ["../../evil.py", "/tmp/evil.py", "out/onnx.py", "in/../out/onnx.py", "in"])
def test_file_outside_of_its_folder_is_refused(agent, link, place):
    files = [[stored(link), place]]
    link.send({**NOTHING, "do": "run", "arguments": ["probe", "--json"], "files": files})
    with pytest.raises(EdgeoptError, match="is not in the folder of the run"):
        list(link.lines())
    assert not [path for path in agent.data_dir.rglob("*.py") if "trials" in path.parts]


def test_program_and_its_variables_are_those_of_the_agent(link, tmp_path):
    mine = tmp_path / "python"
    mine.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    mine.chmod(0o755)
    asked = {"python": str(mine), "code": str(tmp_path), "environment": {"PYTHONSTARTUP": str(mine)}}
    (tmp_path / "edgeopt").mkdir()
    (tmp_path / "edgeopt" / "__main__.py").write_text(f"open('{tmp_path}/ran', 'w')")
    link.ask({"do": "install", "version": __version__})
    link.send({**NOTHING, **asked, "do": "run", "arguments": ["probe", "--json"]})
    assert json.loads(list(link.lines())[-1])["kind"] == "probe"
    assert not (tmp_path / "ran").exists()
    link.send({**NOTHING, "do": "run", "arguments": ["probe", "--json"]})
    with pytest.raises(EdgeoptError, match="one command"):
        list(link.lines())


def test_file_that_is_too_large_is_refused_before_it_is_stored(start_agent):
    small = start_agent(trials=True, max_bundle_bytes=10)
    link = opened(read_address(f"http://127.0.0.1:{small.port}"))
    link.ask({"do": "begin", "run": "1", "owner": {}})
    with pytest.raises(EdgeoptError, match="at most 10"):
        stored(link, b"x" * 11)
    assert not list((small.data_dir / "trials" / "blobs").iterdir())
    link.close()


def test_session_of_another_is_not_found(agent, link):
    status, _, answer = agent.ask("POST", f"{PATH}/0", b'{"do": "end"}\n')
    assert (status, answer["error"]["code"]) == (404, "no-trial")
    assert link.ask({"do": "have", "digests": []}) == {"missing": []}


def test_code_of_a_client_is_refused_in_words(capsys, tmp_path, url):
    for name in ("d.npz", "lib.so"):
        (tmp_path / name).write_bytes(b"")
    words = "bench", tmp_path / "d.npz", "--custom-ops", tmp_path / "lib.so", "--on", url, "--json"
    code = run([*map(str, words)])
    event = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, event["message"]) == (2, "An agent takes no --custom-ops from others.")
    assert "--on ssh://" in event["hint"]


def test_missing_file_is_told_with_what_to_check(capsys, url):
    code = run(["bench", "nothing.onnx", "--on", url, "--json"])
    event = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, event["hint"]) == (2, "Check that the file exists here: those that do are sent.")


@pytest.mark.parametrize("name", REQUESTS)
def test_all_that_a_client_may_ask_is_an_option(name):
    assert OPTIONS[name] <= {each.name for each in options_of(REQUESTS[name])}


def test_usual_search_is_taken(tmp_path):
    model, data = tmp_path / "m.onnx", tmp_path / "d.npz"
    for each in (model, data):
        each.write_bytes(b"")
    kind = REQUESTS["bench"]
    placed = place(kind(f"{data}@openvino,threads=2", data=data, options=("a=b",)), "/run", frozenset())
    words = [*("bench", *placed.arguments), "--json"]
    assert checked(words, "/run", list(placed.files)) == words


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "print(1)"],
        ["deploy", "--json"],
        ["bench", "compare", "--json"],
        ["probe"],
        ["probe", "--root", "/etc", "--json"],
        ["probe", "--device=/etc/passwd", "--json"],
        ["probe", "--record", "../../x", "--json"],
        ["bench", "/etc/passwd", "--json"],
        ["bench", "{run}/in/0/../../../../../../etc/passwd", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--baseline-command", "id", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--custom-ops", "{run}/in/0/m.onnx", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--python", "sh", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--against", "http://127.0.0.1/", "--json"],
        ["bench", "{run}/in/0/m.onnx@qnn,backend_path={run}/in/0/m.onnx", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--option", "backend_path={run}/in/0/m.onnx", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--data", "--json", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "/tmp/out", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "..", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "out", "--metric", "{run}/in/0/m.onnx:f", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "out", "--metric", "os:system", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "out", "--trust", "--json"],
    ],
)
def test_client_cannot_run_anything_else(arguments):
    with pytest.raises(RefusedError):
        checked([each.format(run="/data/runs/1") for each in arguments], "/data/runs/1", ["in/0/m.onnx"])
