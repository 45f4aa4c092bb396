"""The program that runs edgeopt for a client, confined as a worker is: it writes to the folder of its session."""

import runpy
import sys

from edgeopt_agent.workers.confinement import Confinement, WorkerLimit, confine
from edgeopt_agent.workers.landlock import landlock_abi

MODULE = "edgeopt_agent.trials.confined"


def confine_measurement(work: str) -> tuple[WorkerLimit, ...]:
    """Confines this process for good: a search starts processes, and writes below this folder only."""
    return confine(Confinement(release=work, memory_bytes=0, cache=work, children=True))


def why_open() -> str:
    """Returns why a measurement can read and write as the agent can; empty where it cannot."""
    if landlock_abi():
        return ""
    return "the kernel, or the system call filter of the service, has no Landlock"


def main() -> None:
    work, max_bytes, *words = sys.argv[1:]
    confine_measurement(work)
    _bound_files(int(max_bytes))
    sys.argv[1:] = words
    runpy.run_module("edgeopt", run_name="__main__", alter_sys=True)


def _bound_files(max_bytes: int) -> None:
    """Limits each file to what the whole session may write."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    maximum = max_bytes if hard == resource.RLIM_INFINITY else min(max_bytes, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (maximum, maximum))


if __name__ == "__main__":
    main()
