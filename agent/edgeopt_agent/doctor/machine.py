"""Checks of the machine: the port, runtimes, descriptors, memory and the limits of workers."""

import contextlib
import errno
import http.client
import socket
import ssl
import subprocess
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.decoding import thread_safe
from edgeopt.errors import pip_install
from edgeopt.hw.child import python_command
from edgeopt.hw.host import LocalHost
from edgeopt.hw.probes.runtimes import installed_versions
from edgeopt.workers.host import child_environment
from edgeopt.workspace import temporary_folder
from edgeopt_agent.deployments.probing import free_memory_bytes
from edgeopt_agent.doctor.findings import Finding, Findings, Patient, ok, problem, warning
from edgeopt_agent.trials.confined import why_open
from edgeopt_agent.workers.confinement import WorkerLimit

DESCRIPTORS = 4096
_ANSWER_S = 2.0
_PROBE_S = 30.0
# By what a limit says of why it does not hold.
_REMEDIES = (
    ("system call filter", "allow the landlock calls in SystemCallFilter="),
    ("capset", "allow capset in SystemCallFilter="),
    ("root, as the agent", "run the agent as a user, or let every user read edgeopt's folder"),
)
_TRUST_HEADER = "edgeopt-trust"
# In a process of its own: what is applied holds for good.
_CONFINE = """
import sys, msgspec
from edgeopt_agent.workers.confinement import Confinement, confine
print(msgspec.json.encode(confine(Confinement(sys.argv[1], 1 << 30))).decode())
"""


def check_port(patient: Patient) -> Findings:
    if not patient.port:
        yield ok("port", "Any that is free.")
    else:
        yield _port("port", "--port", patient, patient.port)


def check_grpc_port(patient: Patient) -> Findings:
    if patient.grpc_port:
        yield _port("gRPC port", "--grpc-port", patient, patient.grpc_port)


def _port(check: str, option: str, patient: Patient, port: int) -> Finding:
    host = patient.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = error.strerror or str(error)
        else:
            return ok(check, f"{port} is free.")
    # By gRPC it does not say who it is: an agent that runs has both ports.
    if taken and _is_agent(host, patient.port):
        return ok(check, f"An edgeopt agent listens on {port}.")
    if taken:
        return problem(check, f"Another program listens on {port}.", f"Stop it, or choose another with {option}.")
    return problem(
        check, f"The agent cannot listen on {host}:{port}: {reason}.", f"Choose another --host or {option}."
    )


def _is_agent(host: str, port: int) -> bool:
    place = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    anyone = ssl._create_unverified_context()  # noqa: S323 - asked for nothing but who it is
    for connection in (
        http.client.HTTPConnection(place, port, timeout=_ANSWER_S),
        http.client.HTTPSConnection(place, port, timeout=_ANSWER_S, context=anyone),
    ):
        try:
            with contextlib.closing(connection):
                connection.request("GET", "/v2/health/live")
                if connection.getresponse().getheader(_TRUST_HEADER) is not None:
                    return True
        except TimeoutError:
            return False  # an agent answers either way, or ends the connection
        except (OSError, http.client.HTTPException):
            continue
    return False


def check_runtimes(_patient: Patient) -> Findings:
    found = installed_versions(LocalHost())
    if found:
        yield ok("runtimes", ", ".join(f"{name} {version}" for name, version in found) + ".")
    else:
        yield problem("runtimes", "No runtime is installed.", pip_install("cpu"))


def check_descriptors(_patient: Patient) -> Findings:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        advice = f"Raise it to {DESCRIPTORS}: LimitNOFILE= in the unit, or ulimit -Hn."
        yield warning("descriptors", f"The agent may open {hard} files, so fewer connections.", advice)
    else:
        yield ok("descriptors", "Enough for all connections.")


def check_memory(patient: Patient) -> Findings:
    free = free_memory_bytes()
    if free is None:
        yield warning("memory", "The amount of free memory is unknown.", "Mount /proc.")
    elif free < patient.memory_reserve_bytes:
        advice = "End other programs: a new release would have to stop the old one first."
        yield warning("memory", f"{units.size(free)} are free.", advice)
    else:
        yield ok("memory", f"{units.size(free)} are free.")


def check_worker_limits(_patient: Patient) -> Findings:
    with temporary_folder("doctor") as folder:
        # As the agent's data folder, that one is closed to others; a release lies in it.
        release = Path(folder, "release")
        release.mkdir()
        command = python_command("-P", "-c", _CONFINE, str(release))
        environment = child_environment(None, calculates=False)
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_PROBE_S, check=True
            )
            limits = msgspec.json.decode(done.stdout, type=thread_safe(tuple[WorkerLimit, ...]))
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            yield problem("worker limits", f"They could not be tested: {error}.", "Reinstall edgeopt.")
            return
    for limit in limits:
        check = f"worker {limit.name}"
        if limit.applied:
            yield ok(check, f"{limit.how}.")
            continue
        remedy = next((advice for words, advice in _REMEDIES if words in limit.how), "use a newer kernel")
        risk = f"A malicious bundle has the rights of the agent's user: {remedy}, or accept signed bundles only."
        yield warning(check, f"Not limited: {limit.how}.", risk)


def check_measurements(patient: Patient) -> Findings:
    if not patient.trials:
        return
    if why := why_open():
        advice = "Use a newer kernel, allow the landlock calls in SystemCallFilter=, or set trials = false."
        yield warning("measurements", f"Those of clients have the rights of the agent's user: {why}.", advice)
    else:
        yield ok("measurements", "Those of clients write to their own folder only.")
