"""Commands in hints can be pasted, whatever the address and the folder of the agent, on machines with one program.

The agents are real, and so are the programs; each is found by a PATH that has what the machine of the setting has.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgeopt.fleet.address import in_commands
from edgeopt.fleet.request import LookRequest
from edgeopt_agent import certificate, tokens, trusted_keys
from edgeopt_agent.cli.control import _in_this_program
from edgeopt_agent.own_commands import in_own_commands
from edgeopt_agent.settings import Settings
from tests.ports import free_port
from tests.printed import commands_in, refusal

WITHIN_S = 60
PROGRAMS = {"edgeopt": "edgeopt.cli.main", "edgeopt-agent": "edgeopt_agent.main"}
READING = {
    "edgeopt-agent": ("status", "releases", "doctor", "fingerprint", "trust list", "token list"),
    "edgeopt": ("fleet status", "fleet releases", "fleet devices", "fleet rollout status"),
}
# A command of another machine is announced as such.
ELSEWHERE = re.compile(
    r"(on the (device|other machine)|the device|private key is|start one( there)?|machine with edgeopt)[^:]*: $",
    re.IGNORECASE,
)
# What a shell may put something else for, quoted or not.
CHANGED = re.compile(r"[$`*?~[{!#\\\n]")


@dataclass
class Machine:
    """A shell on a machine that has certain programs."""

    folder: Path
    programs: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    shell: bool = False
    """Whether everything is started by a shell."""

    def __post_init__(self):
        binaries = self.folder / "bin"
        binaries.mkdir(parents=True)
        for name in self.programs:
            script = binaries / name
            # As installers do where the path of Python may have spaces, which a first line cannot have.
            shell = f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n"
            script.write_text(f"{shell}from {PROGRAMS[name]} import main\n\nmain()\n")
            script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGEOPT_")}
        self.environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PATH": f"{binaries}:/usr/bin:/bin",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            **self.variables,
        }

    def _started_by(self, command):
        """What starts a command: a shell, or where that would change no word of it, a warm process."""
        tokens = shlex.shlex(command, posix=True, punctuation_chars=True)
        tokens.whitespace_split = True
        words = shlex.split(command)
        if self.shell or words[0] not in self.programs or CHANGED.search(command) or words != list(tokens):
            return ["/bin/sh", "-c", f"exec {command}"]
        script = str(self.folder / "bin" / words[0])
        return [sys.executable, "-P", "-m", "tests.agent.installed", script, *words[1:]]

    def run(self, command, **variables):
        return subprocess.run(
            self._started_by(command),
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def start(self, command):
        words = self._started_by(command)
        return subprocess.Popen(
            words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def paste(self, said):
        """Asserts that the machine has and takes each command of a text, and runs those that only read."""
        found = list(commands_in(said))
        for command in found:
            program = shlex.split(command)[0]
            if program not in self.programs:
                before = said[: said.index(command)].rpartition("\n")[2]
                assert ELSEWHERE.search(before), f"{command} is not on this machine: {said}"
            assert refusal(command) == "", (command, said)
            if program in self.programs and " ".join(shlex.split(command)[1:]).startswith(READING[program]):
                ran = self.run(command)
                assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
        return found


@pytest.fixture
def machine(tmp_path, request):
    """A device with the package of the agent alone, as Debian's package installs it."""
    shell = request.node.get_closest_marker("cold") is not None
    return Machine(tmp_path / "device", ("edgeopt-agent",), shell=shell)


@pytest.fixture
def start():
    with ExitStack() as stack:

        def starter(machine, options):
            quick = "--soak-seconds 0 --soak-requests 0 --log-level error"
            process = machine.start(f"edgeopt-agent run {quick} {options}")
            stack.enter_context(process)
            stack.callback(process.kill)
            lines = []
            while not (lines and "deploy with:" in lines[-1]):
                lines.append(process.stdout.readline())
                assert lines[-1], lines
            return "".join(lines)

        yield starter


SETTINGS = {
    "port": "--port {port}",
    "folder": "--port {port} --data-dir {folder}",
    "folder and TLS": "--port {port} --data-dir {folder} --tls on",
}
ASKED = (
    *("status", "releases", "rollback", "status --model none", "deploy {bundle}", "deploy --from https://h/x"),
)


# The setting with a folder and TLS has what the others have.
@pytest.mark.parametrize(
    "setting",
    [pytest.param(name, marks=() if name == "folder and TLS" else pytest.mark.slow) for name in SETTINGS],
)
def test_commands_on_the_device_can_be_pasted(machine, start, setting, tmp_path, make_null_bundle):
    folder = tmp_path / "its data"
    options = SETTINGS[setting].format(port=free_port(), folder=shlex.quote(str(folder)))
    said = start(machine, options)
    asked = next(command for command in commands_in(said) if " deploy BUNDLE" in command)
    machine.paste(said.partition("unsigned")[2])
    bundle = shlex.quote(str(make_null_bundle(fail="run")))
    selection = asked.partition("BUNDLE")[2]
    pasted = []
    for each in ASKED:
        ran = machine.run(f"edgeopt-agent {each.format(bundle=bundle)}{selection}")
        assert "internal" not in ran.stderr, ran.stderr
        pasted += machine.paste(ran.stdout + ran.stderr)
    assert len(set(pasted)) >= 3, pasted
    place = selection.partition("--data-dir")[2]
    for each in ("pin 0123", "pin 0123 --model none", "doctor"):
        ran = machine.run(f"edgeopt-agent {each}{place and f' --data-dir{place}'}")
        machine.paste(ran.stdout + ran.stderr)


@pytest.mark.parametrize("tls", ["off", "on"])
def test_refusals_of_tokens_name_the_folder_of_the_agent(machine, start, tls, tmp_path):
    folder = tmp_path / "its data"
    start(machine, f"--port {free_port()} --tls {tls} --data-dir {shlex.quote(str(folder))}")
    tokens.add(folder, "someone", "view")
    place = f"--data-dir {shlex.quote(str(folder))}"
    for token in ("", "wrong"):
        ran = machine.run(f"edgeopt-agent status {place}", **({"EDGEOPT_TOKEN": token} if token else {}))
        assert ran.returncode == 3
        machine.paste(ran.stderr)
        (make,) = [each for each in commands_in(ran.stderr) if " token add " in each]
        assert place in make
    made = machine.run(make.replace("NAME", "other") + " --json")
    assert made.returncode == 0, made.stderr
    assert {file.stem for file in tokens.token_files(folder / "tokens")} == {"someone", "other"}


def test_local_commands_need_no_fingerprint(machine, start, tmp_path):
    folder, port = tmp_path / "its data", free_port()
    start(machine, f"--port {port} --tls on --data-dir {shlex.quote(str(folder))}")
    for selection in ("", f" --url 127.0.0.1:{port}", f" --url https://localhost:{port}"):
        ran = machine.run(f"edgeopt-agent status --data-dir {shlex.quote(str(folder))}{selection}")
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("way", [pytest.param("option", marks=pytest.mark.slow), "variable"])
def test_commands_on_a_laptop_can_be_pasted(machine, start, tmp_path, make_null_bundle, way):
    """The laptop has no `edgeopt-agent`, and the folder of the device is not on it."""
    folder, port = tmp_path / "its data", free_port()
    start(machine, f"--port {port} --tls on --data-dir {shlex.quote(str(folder))}")
    known_by = certificate.present(folder).fingerprint
    laptop = Machine(tmp_path / "laptop", ("edgeopt",))
    bundle = shlex.quote(str(make_null_bundle(fail="run")))
    given, variables = "--fingerprint " + known_by, {}
    if way == "variable":
        given, variables = "", {"EDGEOPT_FINGERPRINT": known_by}
    laptop.environment.update(variables)
    pasted = []
    for each in (*ASKED, "watch --seconds 0 --send 1"):
        ran = laptop.run(f"edgeopt fleet {each.format(bundle=bundle)} --url 127.0.0.1:{port} {given}")
        pasted += laptop.paste(ran.stdout + ran.stderr)
    assert len(set(pasted)) >= 3, pasted
    assert all("--data-dir" not in command for command in pasted)
    tokens.add(folder, "someone", "view")
    ran = laptop.run(f"edgeopt fleet status --url https://127.0.0.1:{port}")
    assert laptop.paste(ran.stderr)
    ran = Machine(tmp_path / "other", ("edgeopt",)).run(f"edgeopt fleet status --url https://127.0.0.1:{port}")
    assert "edgeopt-agent fingerprint" in ran.stderr


def test_laptop_pairs_by_the_command_that_the_device_shows(machine, start, tmp_path):
    place = f"--data-dir {shlex.quote(str(tmp_path / 'its data'))}"
    port = free_port()
    start(machine, f"--port {port} --tls on {place}")
    said = machine.run(f"edgeopt-agent pair laptop {place}").stdout
    (pair,) = machine.paste(said)
    assert pair == f"edgeopt fleet pair --url https://DEVICE:{port}"
    laptop = Machine(tmp_path / "laptop", ("edgeopt",))
    ran = laptop.run(f"{pair.replace('DEVICE', '127.0.0.1')} --code {said.splitlines()[1].strip()}")
    assert ran.returncode == 0, ran.stderr
    assert laptop.run(f"edgeopt fleet status --url https://127.0.0.1:{port}").returncode == 0


@pytest.mark.cold  # through a shell and the script, as all these commands are typed
def test_agent_that_does_not_start_says_what_to_paste(machine, tmp_path):
    place = f"--data-dir {shlex.quote(str(tmp_path / 'its data'))}"
    ran = machine.run(f"edgeopt-agent run --host 0.0.0.0 {place}")
    assert ran.returncode == 2
    assert len(machine.paste(ran.stderr)) == 2
    ran = machine.run(f"edgeopt-agent fingerprint {place}")
    assert ran.returncode == 3
    assert [each for each in machine.paste(ran.stderr) if place in each]
    ran = machine.run(f"edgeopt-agent status {place}")
    assert ran.returncode == 5
    assert [each for each in machine.paste(ran.stderr) if place in each]


def test_doctor_names_the_folder_in_its_advice(machine, tmp_path, make_null_bundle):
    folder = tmp_path / "its data"
    folder.mkdir(mode=0o700)
    place = f"--data-dir {shlex.quote(str(folder))}"
    ran = machine.run(f"edgeopt-agent doctor --host 0.0.0.0 {place}")
    found = machine.paste(ran.stdout)
    assert len(found) == 2
    assert all(place in each for each in found)
    assert not trusted_keys.trusted(folder).keys


ROOT = Path(__file__).parents[3]
URL = "https://device:9000"
SOURCES = ("agent/edgeopt_agent", "edgeopt/fleet")
# A command alone is part of a sentence that is made elsewhere: the tests above read those.
PARTS = ("edgeopt pairing", "edgeopt-agent ")
# What is said on the other machine only: by commands that look into the data folder, and by those of the broker.
NOT_SAID_ON = {
    "laptop": (
        "agent/edgeopt_agent/cli",
        "agent/edgeopt_agent/doctor",
        *(f"agent/edgeopt_agent/{name}.py" for name in ("certificate", "trust", "own_commands")),
    ),
    "device": ("edgeopt/fleet/rollout", "edgeopt/fleet/address", "agent/edgeopt_agent/cli/trust"),
}


def _texts(path):
    """The texts of a source file with their lines, docstrings aside; 77 stands for a value in them."""
    tree = ast.parse(path.read_text())
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    skipped = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)
    }
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    skipped |= {id(part) for node in formatted for part in node.values}
    for node in formatted:
        said = "".join(p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)
        yield node.lineno, re.sub(r"(?<=[a-zA-Z])\0", "", said).replace("\0", "77")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _hints():
    """Every text of the agent and the client that names a command, with its place."""
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            for line, said in _texts(path):
                if list(commands_in(said)):
                    yield f"{path.relative_to(ROOT)}:{line}", said


@pytest.mark.parametrize("machine", ["laptop", "device"])
def test_every_hint_names_programs_that_the_machine_has(machine):
    """A laptop has `edgeopt`, a device `edgeopt-agent`; hints with the other say where to run it."""
    program, missing, seen = {"laptop": "edgeopt", "device": "edgeopt-agent"}[machine], [], 0
    for place, said in _hints():
        if place.startswith(NOT_SAID_ON[machine]) or said.startswith(PARTS):
            continue
        shown = in_commands(said, URL)
        if machine == "device":
            shown = _in_this_program(shown, LookRequest(url=URL), None)
        for command in commands_in(shown):
            seen += 1
            before, _, after = shown.partition(command)
            other = shlex.split(command)[0] != program
            if other and not ELSEWHERE.search(before) and "on the device" not in after:
                missing.append((place, command, shown))
    assert seen > 30
    assert missing == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "On it: edgeopt-agent token add NAME --role view",
            "On it: edgeopt-agent token add NAME --role view PLACE",
        ),
        ("Remove one (edgeopt-agent remove NAME), or", "Remove one (edgeopt-agent remove NAME PLACE), or"),
        ("See: edgeopt-agent rollback --model 'a b'; or", "See: edgeopt-agent rollback --model 'a b' PLACE; or"),
        ("`edgeopt-agent gc` may help", "`edgeopt-agent gc PLACE` may help"),
        ("edgeopt-agent status --data-dir /x", "edgeopt-agent status --data-dir /x"),
        ("edgeopt-agent listens", "edgeopt-agent listens"),
    ],
)
def test_commands_to_copy_name_a_folder_that_is_not_the_users(said, shown, tmp_path):
    settings = Settings(data_dir=tmp_path / "its data", port=9000)
    place = f"--data-dir '{tmp_path}/its data'"
    assert in_own_commands(said, settings) == shown.replace("PLACE", place)


def test_control_needs_no_folder_at_the_usual_address(tmp_path):
    said = in_own_commands("edgeopt-agent status; edgeopt-agent token list", Settings(data_dir=tmp_path))
    assert said == f"edgeopt-agent status; edgeopt-agent token list --data-dir {tmp_path}"
