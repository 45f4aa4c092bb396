"""A client with a token that tries to run something else, or to reach files outside."""

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

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
from tests.agent.workers.test_confinement import needs_landlock

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
    for name in ("d.xml", "lib.so"):
        (tmp_path / name).write_bytes(b"")
    words = "bench", tmp_path / "d.xml", "--custom-ops", tmp_path / "lib.so", "--on", url, "--json"
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
    assert set(OPTIONS[name]) <= {each.name for each in options_of(REQUESTS[name])}


def test_usual_search_is_taken(tmp_path):
    model, data = tmp_path / "m.onnx", tmp_path / "d.npz"
    for each in (model, data):
        each.write_bytes(b"")
    kind = REQUESTS["bench"]
    sides = (f"{model}@openvino-cpu,threads=2", "openvino-cpu,precision=f32", "threads=1,spinning=off", "null")
    asked = kind(str(model), against=sides, data=data, options=("graph_level=all", 'shapes={"x":[1,2]}'))
    searched = REQUESTS["optimize"](
        model, tmp_path / "o.edgeopt", data, floor="25dB", metric="top1-labels", max_drop="0.5%",
        target_speedup=2.0, shape=("seq=16:32:128", "batch=1,4"), target="raspberry-pi-5",
        profile=Path("realtime"), pick="int8 · 2", baseline=model,
    )  # fmt: skip
    for name, request in (("bench", asked), ("optimize", searched)):
        placed = place(request, "/run", frozenset({"out"}))
        words = [name, *placed.arguments, "--json"]
        assert checked(words, "/run", list(placed.files)) == words


BUNDLE = tuple(
    f"in/1/b.edgeopt/{name}" for name in ("manifest.json", "deployment.toml", "model/m.onnx", "config.json")
)
FRAMEWORKS = ("m.pt", "m.pkl", "m.keras", "m.tflite", "m.pt2", "m.py", "net.py:Net", "os:system.onnx", "a@b.onnx")
SOURCES = (
    "os:system", "json.tool:main", "edgeopt.cli.main:run", "{run}/in/0/net.py:Net", "net.py:Net", "ssh://root@host",
    "https://host/v2/models/m", "python3 -c pass", "sh", "config", "openvino-cpu,cache_dir=x",
    "trt_extra_plugin_lib_paths=evil", "device=libevil.so", "compile", "m@compile", "{run}/in/2/hf", "{run}/in/2",
    *(f"{{run}}/in/0/{name}" for name in FRAMEWORKS),
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_source_that_could_hold_a_program_is_refused(source):
    run = "/data/trials/work/runs/1"
    places = [f"in/0/{name}" for name in ("m.onnx", *FRAMEWORKS)] + ["in/2/hf/config.json", "in/2/hf/model.bin"]
    named, model = source.format(run=run), f"{run}/in/0/m.onnx"
    for words in (
        ["bench", model, "--against", named],
        ["bench", named],
        ["optimize", named, "-o", "out"],
        ["optimize", model, "-o", "out", "--baseline", named],
        ["bench", model, "--option", named],
        ["bench", model, "--backend", named],
        *([["bench", model, "--sweep", named]] if "=" in named else []),
    ):
        with pytest.raises(RefusedError) as refused:
            checked([*words, "--json"], run, places)
        assert "/data" not in str(refused.value.answer)


def test_bundle_that_came_with_the_command_is_taken():
    bundle = "/run/in/1/b.edgeopt"
    words = ["bench", bundle, "--against", "/run/in/0/p.edgeopt", "--json"]
    assert checked(words, "/run", [*BUNDLE, "in/0/p.edgeopt"]) == words


@pytest.mark.parametrize("source", ["json.tool:main", "http://127.0.0.1:9/v2/models/m"])
def test_agent_imports_and_asks_nothing_for_a_client(agent, link, source):
    digest = stored(link)
    link.ask({"do": "install", "version": __version__})
    words = ["bench", f"{link.folder}/runs/1/in/0/m.onnx", "--against", source, "--json"]
    link.send({**NOTHING, "do": "run", "arguments": words, "files": [[digest, "in/0/m.onnx"]]})
    with pytest.raises(EdgeoptError, match="is not a file that came with the command") as refused:
        list(link.lines())
    assert str(agent.data_dir) not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "print(1)"],
        ["deploy", "--json"],
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
        ["bench", "{run}/in/0/m.onnx", "--rounds", "many", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--sweep", "cache_dir=a,b", "--json"],
        ["bench", "{run}/in/0/m.onnx", "--save", "../x", "--json"],
        ["optimize", "{run}/in/0/m.onnx", "-o", "out", "--profile", "../x.toml", "--json"],
    ],
)
def test_client_cannot_run_anything_else(arguments):
    with pytest.raises(RefusedError):
        checked([each.format(run="/data/runs/1") for each in arguments], "/data/runs/1", ["in/0/m.onnx"])


def test_upload_beyond_the_session_is_refused_without_a_place(start_agent):
    small = start_agent(trials=True, trials_bytes=10_000)
    link = opened(read_address(f"http://127.0.0.1:{small.port}"))
    link.ask({"do": "begin", "run": "1", "owner": {}})
    stored(link, b"x" * 6_000)
    with pytest.raises(EdgeoptError, match="a session may write") as refused:
        stored(link, b"y" * 6_000)
    assert str(small.data_dir) not in refused.value.message
    link.close()


def test_what_a_command_writes_counts_too(start_agent, call, tmp_path):
    small = start_agent(trials=True, trials_bytes=10_000)
    code, event = call("probe", "--record", tmp_path / "record", "--on", f"http://127.0.0.1:{small.port}")
    assert (code, "was ended on the device: a session may write" in event["message"]) == (4, True), event
    assert "trials_bytes" in event["hint"]
    assert not (tmp_path / "record").exists()


def test_full_disk_takes_no_measurement_and_still_tells_facts(start_agent, call):
    full = start_agent(trials=True, disk_reserve_bytes=1 << 60)
    url = f"http://127.0.0.1:{full.port}"
    code, event = call("probe", "--deep", "--on", url)
    assert (code, "its disk is full" in event["message"]) == (1, True), event
    assert call("probe", "--on", url)[0] == 0


def test_failure_of_the_disk_is_told_without_its_place(agent, link):
    blobs = agent.data_dir / "trials" / "blobs"
    blobs.rmdir()
    with pytest.raises(EdgeoptError, match="No such file or directory") as refused:
        stored(link)
    assert str(agent.data_dir) not in refused.value.message


CONFINED = """
import json, os, resource, socket, subprocess, sys
from edgeopt_agent.trials.confined import confine_measurement

work, secret, port, agent = sys.argv[1:]
limits = confine_measurement(work)
found = {"limits": {limit.name: limit.applied for limit in limits}}

def tried(name, act):
    try:
        act()
        found[name] = "allowed"
    except OSError as error:
        found[name] = error.strerror

child = [sys.executable, "-c", "import time; time.sleep(60)"]
def start_and_end():
    process = subprocess.Popen(child, start_new_session=True)
    os.killpg(process.pid, 9)
    process.wait()

tried("work", lambda: open(work + "/new", "w"))
tried("children", start_and_end)
tried("secret", lambda: open(secret).read())
tried("new file", lambda: open(secret + ".new", "w"))
tried("environment", lambda: open(f"/proc/{agent}/environ").read())
tried("limits of the agent", lambda: resource.prlimit(int(agent), resource.RLIMIT_NOFILE, (9, 9)))
tried("connect", lambda: socket.create_connection(("127.0.0.1", int(port)), 5))
import onnxruntime
print(json.dumps(found))
"""


@needs_landlock
def test_measurement_writes_to_its_folder_and_reaches_nothing_else(agent, tmp_path):
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.write_text("token")
    command = [sys.executable, "-c", CONFINED, str(work), str(secret), str(agent.port), str(agent.process.pid)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name for name, applied in found["limits"].items() if not applied} <= {"user"}
    assert {name for name, how in found.items() if how == "allowed"} == {"work", "children"}


ORPHAN = """
import subprocess, sys
from edgeopt_agent.trials import child

child.adopt_orphans()
popen = "subprocess.Popen([sys.executable, '-c', 'input()'], start_new_session=True, stdin=0)"
starter = f"import subprocess, sys; {popen}"
process = subprocess.Popen([sys.executable, "-c", starter], stdin=subprocess.PIPE)
process.wait()
before = len(child._descendants())
child._end_descendants()
print(before, len(child._descendants()))
"""


def test_what_has_left_its_group_is_ended_too():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["1", "0"], done.stderr
