"""The agent's Debian package in a new Debian: install, probe, serve, upgrade under load, remove, purge; optimize.

Run by try_packages.py. The steps that other trials share are here too.
"""

import json
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from debian import MACHINES, platforms

import edgeopt
from edgeopt.hw import arm_hwcap
from edgeopt.version import __version__

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "edgeopt/data/demo/digits_cnn"
NEXT_VERSION = f"{__version__}+try"
SUITE = "bookworm"
PROFILE = """
name = "try"
title = "A short search for the runtime that is in the package"
extends = "generic-cpu"
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 3
time_limit_s = 5
"""
CONFIG = "/tmp/agent.toml"  # noqa: S108 - inside the new Debian
SAMPLES = 16
AGREEMENT_DB = 40.0
"""Integer kernels of another architecture round differently; a wrong answer is far below this."""
LIMIT_S = 900
INSTALLED_LIMIT_MIB = 220
OPTIMIZER = "opt/optimizer"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
PIP += ("--only-binary", ":all:", "-c", str(ROOT / "constraints.txt"))
Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class TrialError(Exception):
    """A sentence about what did not work."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Inputs, and the host's answers to them."""

    name: str
    inputs: list[Array]
    outputs: list[Array]


@dataclass(slots=True)
class Figures:
    """What a trial measures, filled in step by step; None where it did not get that far."""

    package_mb: float | None = None
    installed_mib: float | None = None
    install_s: float | None = None
    requests: int | None = None
    failed_requests: int | None = None
    slowest_ms: float | None = None


def run_trial(work: Path, figures: Figures, architecture: str, base: Path | None) -> None:
    emulated = MACHINES[architecture] != platform.machine()
    print(f"edgeopt-agent {__version__} on Debian {SUITE}, {architecture}{', emulated' if emulated else ''}")
    with step("build the package") as said:
        host(sys.executable, str(ROOT / "packaging/deb/build.py"), str(work), "--architecture", architecture)
        (package,) = work.glob("*.deb")
        said.append(f"{package.stat().st_size / 1e6:.0f} MB")
    with step("build its successor") as said:
        successor = bump(package, work)
        said.append(NEXT_VERSION)
    with step("optimize on this machine") as said:
        bundle = work / "digits_cnn.edgeopt"
        (work / "try.toml").write_text(PROFILE)
        command = ("optimize", f"{SAMPLE}.onnx", "--data", f"{SAMPLE}.npz", "--profile", str(work / "try.toml"))
        host(sys.executable, "-m", "edgeopt", *command, "-o", str(bundle))
        expected = expect(bundle)
        said.append(f"{len(expected.inputs)} answers to compare")
    root = work / "root"
    make_root(root, base, f"--arch={architecture}", "--include=python3", SUITE)
    if emulated:
        print("A model may take as long as it likes here: emulated, it is not as quick as its bundle says.")
    (root / "tmp/agent.toml").write_text("latency_slack_ms = 20000.0\n" if emulated else "")
    shutil.copy(successor, root / "tmp/next.deb")
    shutil.copytree(bundle, root / "tmp/digits.edgeopt")
    try_package(root, package, expected, figures)
    try_optimizer(work, root, architecture)


def make_root(root: Path, base: Path | None, *options: str) -> None:
    """A new Debian with /proc: a copy of the base, or what debootstrap makes with these options and the suite."""
    with step("copy the Debian" if base else "debootstrap"):
        if base:
            host("cp", "-a", str(base), str(root))
        else:
            host("debootstrap", "--variant=minbase", *options, str(root))
    host("mount", "-t", "proc", "proc", str(root / "proc"))


def install_package(root: Path, package: Path, name: str, figures: Figures) -> str:
    """Installs a package, notes its sizes and the time in the figures, and returns the sizes as text."""
    shutil.copy(package, root / "tmp/package.deb")
    began = time.monotonic()
    inside(root, "dpkg", "--install", "/tmp/package.deb")  # noqa: S108 - inside the new Debian
    figures.install_s = time.monotonic() - began
    figures.package_mb = package.stat().st_size / 1e6
    figures.installed_mib = mebibytes(root / "opt" / name)
    return f"{figures.package_mb:.0f} MB, {figures.installed_mib:.0f} MiB installed"


def mebibytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / (1 << 20)


def try_package(root: Path, package: Path, expected: Expected, figures: Figures) -> None:
    """What an administrator does with the package, from its installation to its purge."""
    before = files(root)
    with step("install") as said:
        said += [install_package(root, package, "edgeopt-agent", figures)]
        said += [inside(root, "edgeopt-agent", "--version").strip()]
        if (figures.installed_mib or 0) > INSTALLED_LIMIT_MIB:
            raise TrialError(f"the package takes {figures.installed_mib:.0f} MiB, over {INSTALLED_LIMIT_MIB}")
    with step("probe") as said:
        said.append(probe_features(root))
    with step("doctor") as said:
        text = inside(root, "edgeopt-agent", "doctor", "--data-dir", "/var/lib/edgeopt")
        said.append(f"{text.count('WARNING')} warnings, {text.count('PROBLEM')} problems")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with step("start"):
        agent = start(root, address)
    try:
        with step("deploy"):
            # --force: the bundle was proved on this machine, and without /sys the new Debian has another identity.
            inside(root, "edgeopt-agent", "deploy", "/tmp/digits.edgeopt", "--force", "--url", address)  # noqa: S108
        with step("infer") as said:
            said.append(f"agrees with this machine to {compare(address, expected):.0f} dB")
        with step("upgrade while serving") as said:
            said.append(upgrade_under_load(root, address, expected, figures))
        with step("restart"):
            stop(agent)
            agent = start(root, address)
        with step("infer again") as said:
            said.append(f"agrees with this machine to {compare(address, expected):.0f} dB")
    finally:
        stop(agent)
    with step("remove") as said:
        inside(root, "dpkg", "--remove", "edgeopt-agent")
        left = sorted(str(path) for path in files(root) - before)
        if strange := [path for path in left if not path.startswith(("etc/edgeopt", "var/lib/edgeopt"))]:
            raise TrialError(f"removing the package leaves {', '.join(strange[:5])}")
        if not {"etc/edgeopt/agent.toml", "var/lib/edgeopt/state.db"} <= set(left):
            raise TrialError("removing the package, without a purge, loses settings or state")
        said.append("settings and state stay")
    with step("purge") as said:
        inside(root, "dpkg", "--purge", "edgeopt-agent")
        if left := sorted(str(path) for path in files(root) - before):
            raise TrialError(f"a purge leaves {', '.join(left[:5])}")
        # dpkg removes /opt too, once it is empty.
        if lost := sorted(str(path) for path in before - files(root) - {Path("opt")}):
            raise TrialError(f"a purge loses {', '.join(lost[:5])}")
        # A cache belongs to the user who ran a command, and a package leaves the homes of users alone.
        cached = list((root / "root").rglob("*.json"))
        said.append(f"nothing is left{', but the cache of the user root' if cached else ''}")


def probe_features(root: Path) -> str:
    """The CPU's instruction sets as the package names them, and their source."""
    (python,) = root.glob("opt/edgeopt-agent/bin/python3.*")
    command = (f"/{python.relative_to(root)}", "-I", "-m", "edgeopt", "probe", "--json")
    device = json.loads(inside(root, *command))["data"]
    sets, source = device["cpu"]["simd"], device["sources"].get("cpu.simd")
    # An old emulator shows this machine's /proc/cpuinfo, a new one its own.
    if device["host"]["architecture"] == "aarch64" and source not in {arm_hwcap.SOURCE, "/proc/cpuinfo: Features"}:
        raise TrialError(f"edgeopt probe does not see the CPU's features: {sets} ({source})")
    return f"{' '.join(sets)} ({source})"


def try_optimizer(work: Path, root: Path, architecture: str) -> None:
    """`edgeopt optimize` in the new Debian, from wheels: the package of the agent has no optimizer."""
    site = root / OPTIMIZER
    with step("install the optimizer") as said:
        wheel = build_wheel(work)
        host(*PIP, "--target", str(site), *platforms(architecture), f"{wheel}[optimize,cpu]")
        said.append(f"{mebibytes(site):.0f} MiB of wheels")
    with step("optimize") as said:
        sample = f"/{OPTIMIZER}/edgeopt/data/demo/{SAMPLE.name}"
        command = ("optimize", f"{sample}.onnx", "--data", f"{sample}.npz", "--time-limit", "60", "--json")
        python = ("env", f"PYTHONPATH=/{OPTIMIZER}", "python3", "-m", "edgeopt")
        result = json.loads(inside(root, *python, *command, "-o", f"/{OPTIMIZER}/new").splitlines()[-1])
        if result["event"] != "result" or not (site / "new").exists():
            raise TrialError(f"edgeopt optimize ends without a bundle: {result}")
        said.append(result["data"]["summary"])


def build_wheel(work: Path) -> Path:
    """The wheel of this checkout."""
    host(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(work / "wheel"), str(ROOT))
    (wheel,) = work.glob("wheel/*.whl")
    return wheel


def bump(package: Path, work: Path) -> Path:
    """The same package under a higher version, as its control file and its program tell it."""
    tree = work / "next"
    host("dpkg-deb", "--raw-extract", str(package), str(tree))
    (version,) = tree.glob("opt/edgeopt-agent/lib/*/site-packages/edgeopt/version.py")
    for path in (tree / "DEBIAN/control", version):
        path.write_text(path.read_text().replace(__version__, NEXT_VERSION))
    successor = work / "next.deb"
    host("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(successor))
    shutil.rmtree(tree)
    return successor


def expect(bundle: Path) -> Expected:
    session = edgeopt.load(bundle)
    with np.load(f"{SAMPLE}.npz") as data:
        (name,) = [each.name for each in session.inputs]
        inputs = [data[name][number] for number in range(SAMPLES)]
    outputs = [next(iter(session.run({name: each}).values())) for each in inputs]
    session.close()
    return Expected(name, inputs, outputs)


def upgrade_under_load(root: Path, address: str, expected: Expected, figures: Figures) -> str:
    """Installs the next version while a client asks without a pause; fails with its first failure."""
    done = threading.Event()
    failures: list[str] = []
    latencies_s: list[float] = []

    def client() -> None:
        while not done.is_set():
            number = len(latencies_s) % SAMPLES
            began = time.monotonic()
            try:
                agreement(ask(address, expected, number), expected.outputs[number])
            except (OSError, ValueError, KeyError, TrialError) as error:
                failures.append(str(error))
            latencies_s.append(time.monotonic() - began)

    asking = threading.Thread(target=client)
    asking.start()
    try:
        inside(root, "dpkg", "--install", "/tmp/next.deb")  # noqa: S108 - inside the new Debian
    finally:
        done.set()
        asking.join()
        figures.requests, figures.failed_requests = len(latencies_s), len(failures)
        figures.slowest_ms = max(latencies_s, default=0.0) * 1000
    if failures or not latencies_s:
        raise TrialError(f"{len(failures)} of {len(latencies_s)} requests failed: {failures[:1]}")
    if NEXT_VERSION not in (version := inside(root, "edgeopt-agent", "--version")):
        raise TrialError(f"after the upgrade the program says {version}")
    return f"0 of {len(latencies_s)} requests failed, the slowest took {figures.slowest_ms:.0f} ms"


def start(root: Path, address: str) -> subprocess.Popen[bytes]:
    """An agent that serves; what it says goes to a file in the new Debian."""
    options = ("--data-dir", "/var/lib/edgeopt", "--port", address.rpartition(":")[2], "--config", CONFIG)
    quick = ("--soak-seconds", "0", "--soak-requests", "0")
    command = ["chroot", str(root), "/usr/bin/edgeopt-agent", "run", *options, *quick]
    log = root / "tmp/agent.log"
    with log.open("wb") as stream:
        agent = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + LIMIT_S
    while f"listens at {address}" not in log.read_text():
        if agent.poll() is not None or time.monotonic() > deadline:
            stop(agent)
            raise TrialError(f"the agent does not start: {log.read_text()}")
        time.sleep(0.1)
    return agent


def stop(agent: subprocess.Popen[bytes]) -> None:
    if agent.poll() is None:
        agent.send_signal(signal.SIGTERM)
        agent.wait(LIMIT_S)


def compare(address: str, expected: Expected) -> float:
    """The smallest agreement of all samples, once the agent is ready."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            ask(address, expected, 0)
            break
        except OSError as error:  # a release that is being started answers 503
            if time.monotonic() > deadline:
                raise TrialError(f"the agent does not answer: {error}") from error
            time.sleep(0.1)
    return min(agreement(ask(address, expected, number), expected.outputs[number]) for number in range(SAMPLES))


def ask(address: str, expected: Expected, number: int) -> Array:
    picture = expected.inputs[number]
    tensor = {"name": expected.name, "datatype": "FP32", "shape": picture.shape, "data": picture.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    request = urllib.request.Request(f"{address}/v2/models/digits_cnn/infer", data=body)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the address is our own
        (output,) = json.loads(answer.read())["outputs"]
    return np.asarray(output["data"], np.float32).reshape(output["shape"])


def agreement(answer: Array, wanted: Array) -> float:
    """Signal to noise in dB, 200 for equal bits; raises where another digit wins or too little agrees."""
    noise = float(np.linalg.norm(answer - wanted))
    ratio_db = 200.0 if noise == 0 else 20 * float(np.log10(np.linalg.norm(wanted) / noise))
    if not ratio_db >= AGREEMENT_DB or int(answer.argmax()) != int(wanted.argmax()):
        raise TrialError(f"an answer agrees with this machine's to {ratio_db:.0f} dB only")
    return ratio_db


def files(root: Path) -> set[Path]:
    """Every path outside of homes and of what dpkg, apt and the kernel write for themselves."""
    tops = [top for top in root.iterdir() if top.name not in {"proc", "sys", "dev", "tmp", "run", "root"}]
    found = {path.relative_to(root) for top in tops for path in (top, *top.rglob("*"))}
    return {path for path in found if not path.is_relative_to("var/lib/dpkg") and path.parts[:2] != ("var", "log")}


def inside(root: Path, *command: str) -> str:
    """What a command in the new Debian prints."""
    environment = {
        "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    return host("chroot", str(root), *command, environment=environment)


def host(*command: str, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
    ).stdout


@contextmanager
def step(name: str) -> Iterator[list[str]]:
    """Prints a line with the time that a step took and what it found."""
    began = time.monotonic()
    said: list[str] = []
    print(f"{name:<26}", end="", flush=True)
    try:
        yield said
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - began:7.1f} s  {'; '.join(said)}", flush=True)
