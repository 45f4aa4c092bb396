"""The program that an agent starts for one session: the one that runs over SSH, held to what clients may do."""

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from edgeopt import units
from edgeopt.hw.child import python_command
from edgeopt.remote import far
from edgeopt.remote.address import PROBE_ONLY
from edgeopt.version import __version__
from edgeopt_agent.trials.allowed import checked

NICENESS = 10
"""What serves comes first."""
_KILLED_FIRST = b"800"
DEPLOYING = "A deployment began on the device, so the measurement was ended."
_OF_THE_AGENT = (
    "EDGEOPT_TOKEN",
    "EDGEOPT_FINGERPRINT",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "WATCHDOG_USEC",
)


class AgentSession(far.Session):
    def __init__(
        self, channel: far.Channel, folder: Path, most_bytes: int, reserve_bytes: int, probes: bool
    ) -> None:
        super().__init__(channel, folder)
        self._probes = probes
        self._most_bytes = most_bytes
        self._reserve_bytes = reserve_bytes

    def unfit(self, size: int) -> str | None:
        if not isinstance(size, int) or size < 0:
            raise far.GoneError
        if size > self._most_bytes:
            return f"a file has {units.size(size)}, and at most {units.size(self._most_bytes)} are taken"
        if shutil.disk_usage(self.folder).free - size < self._reserve_bytes:
            return "its disk is full"
        return None

    def install(self, message: dict[str, Any]) -> None:
        """Nothing: the agent's own edgeopt runs, and must be the same one."""
        if message.get("version") != __version__:
            raise far.RefusedError(
                "version",
                words=f"The agent has edgeopt {__version__}, and this one is {message.get('version')}.",
                hint="Use the same version on both, or measure over SSH: --on ssh://[USER@]HOST",
            )
        self.channel.send({"installed": "", "python": python_command()[0], "made": []})

    def command(self, message: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        places = [str(place) for _, place in message["files"]]
        words = [str(word) for word in message["arguments"]]
        if self._probes and (words[:1] != ["probe"] or "--deep" in words):
            raise far.RefusedError(
                "not-taken",
                words="This session only reads the facts of the device.",
                hint=f"Begin one without {PROBE_ONLY}=1.",
            )
        words = checked(words, str(self.run), places)
        # Nothing is imported from the folder that it runs in.
        return [*python_command("-P", "-m", "edgeopt", *words)], {"PYTHONSAFEPATH": "1"}


def main() -> None:
    folder, most_bytes, reserve_bytes, only = sys.argv[1:]
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_KILLED_FIRST)
    for name in _OF_THE_AGENT:
        os.environ.pop(name, None)
    far.serve(
        lambda channel, _: AgentSession(
            channel, Path(folder), int(most_bytes), int(reserve_bytes), only == PROBE_ONLY
        ),
        {signal.SIGUSR1: DEPLOYING},
    )


if __name__ == "__main__":
    main()
