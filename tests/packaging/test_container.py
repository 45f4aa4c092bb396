"""The Containerfile: what it promises, and, without an engine, its steps one by one in folders and chroot."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging" / "container"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def instructions():
    text = re.sub(r"\\\n", " ", (FOLDER / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def of(name):
    return [value for word, value in instructions() if word == name]


def test_the_agent_runs_as_a_user_that_owns_nothing_but_its_state():
    (user,) = of("USER")
    assert user == "10001:10001"
    assert any("--owner=10001" in step and step.endswith("/var/lib/edgeopt") for step in of("RUN"))
    assert of("VOLUME") == ["/var/lib/edgeopt"]


def test_the_last_stage_takes_the_agent_from_the_one_before_it():
    assert len(of("FROM")) == 3
    after = instructions()[max(n for n, (word, _) in enumerate(instructions()) if word == "FROM") :]
    assert ("COPY", "--from=package /agent/opt/edgeopt-agent /opt/edgeopt-agent") in after
    assert "dist/" not in " ".join(value for _, value in after)


def test_the_build_passes_what_it_copies_to_the_engine():
    ignored, *passed = (FOLDER / "Containerfile.containerignore").read_text().splitlines()
    assert ignored == "*"
    patterns = [each.removeprefix("!") for each in passed]
    for source in (shlex.split(value)[0] for value in of("COPY") if not value.startswith("--")):
        assert any(Path(source).match(pattern) for pattern in patterns), source
        assert source.startswith("dist/") or (ROOT / source).is_file()


def test_the_build_says_what_is_missing(tmp_path):
    sh = shutil.which("sh")
    done = subprocess.run(
        [sh, str(FOLDER / "build.sh")], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "podman is missing: apt install podman\n")


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 0), (500, 1), (None, 1)])
def test_the_health_check_tells_an_agent_that_answers(status, code):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/v2/health/live" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    port = server.server_port
    if status is None:
        server.server_close()
    else:
        Thread(target=server.serve_forever, daemon=True).start()
    done = subprocess.run(
        [sys.executable, str(FOLDER / "health.py")],
        env={"EDGEOPT_HEALTH_PORT": str(port), "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    if status is not None:
        server.shutdown()
        server.server_close()
    assert done.returncode == code, done.stderr


@dataclass
class Engine:
    """Does what an engine does with a Containerfile, stage by stage, in folders below `work`."""

    context: Path
    base: Path
    work: Path
    arguments: dict
    stages: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    environment: dict = field(default_factory=lambda: dict(ENVIRONMENT))

    def build(self):
        root = None
        for word, value in instructions():
            if word == "FROM":
                image, _, name = value.partition(" AS ")
                root = self.work / (name or "image")
                subprocess.run(["cp", "-a", str(self.stages.get(image, self.base)), str(root)], check=True)
                self.stages[name or "image"] = root
            elif word == "RUN":
                self.run(root, value)
            elif word == "COPY":
                self.copy(root, value)
            elif word == "ENV":
                self.environment.update([value.split("=", 1)])
            else:
                self.settings[word] = value
        return root

    def run(self, root, command):
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        done = subprocess.run(
            ["chroot", str(root), "/bin/sh", "-c", command],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"

    def copy(self, root, value):
        *options, source, target = shlex.split(value)
        origin = self.stages[options[0].removeprefix("--from=")] if options else self.context
        for name, text in self.arguments.items():
            source = source.replace(f"${{{name}}}", text)
        (found,) = origin.glob(source.removeprefix("/"))
        place = root / target.removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-aT", str(found), str(place)], check=True)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_image_serves_on_a_read_only_file_system_without_root(package, debian_base, digits_bundle, tmp_path):
    context = tmp_path / "context"
    (context / "dist").mkdir(parents=True)
    shutil.copy(package, context / "dist")
    shutil.copytree(FOLDER, context / "packaging/container")
    architecture = package.stem.rpartition("_")[2]
    engine = Engine(context, debian_base, tmp_path, {"TARGETARCH": architecture})
    root = engine.build()
    shutil.copytree(digits_bundle, root / "srv/digits.edgeopt")
    command = [*json.loads(engine.settings["ENTRYPOINT"]), *json.loads(engine.settings["CMD"])]
    enter = ["chroot", f"--userspec={engine.settings['USER']}", str(root)]
    # What `--read-only`, `--tmpfs /tmp` and a volume do. The namespace and its mounts go with the agent.
    script = f"""
        set -e
        mount --bind {shlex.quote(str(root))} {shlex.quote(str(root))}
        cd {shlex.quote(str(root))}
        mount -t proc proc proc
        mount -t tmpfs -o uid=10001,gid=10001,mode=0700 state var/lib/edgeopt
        mount -t tmpfs tmp tmp
        mount -o remount,ro,bind .
        exec {shlex.join(enter)} "$@"
    """
    image = ["unshare", "--mount", "--net", "sh", "-c", f"ip link set lo up\n{script}", "image"]
    with (tmp_path / "agent.log").open("wb") as log:
        agent = subprocess.Popen([*image, *command], env=engine.environment, stdout=log, stderr=subprocess.STDOUT)
    namespace = ["nsenter", f"--target={agent.pid}", "--mount", "--net", *enter]

    def inside(*words):
        return subprocess.run(
            [*namespace, *words], env=engine.environment, capture_output=True, text=True, check=False
        )

    try:
        health = json.loads(engine.settings["HEALTHCHECK"].partition(" CMD ")[2])
        deadline = time.monotonic() + 120
        while inside(*health).returncode:
            assert agent.poll() is None, (tmp_path / "agent.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "agent.log").read_text()
        deploy = ("deploy", "/srv/digits.edgeopt", "--force", "--soak-seconds", "0", "--soak-requests", "0")
        done = inside("/usr/bin/edgeopt-agent", *deploy)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "digits_cnn" in inside("/usr/bin/edgeopt-agent", "status").stdout
        assert inside("/usr/bin/id", "-u").stdout == "10001\n"
        assert "Read-only file system" in inside("/usr/bin/touch", "/var/tmp/file").stderr
    finally:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
