"""An agent that can be told to die at its n-th write of a state into the journal, before or after it."""

# ruff: noqa: T201 - a program that prints

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from edgeopt_agent import service
from edgeopt_agent.journal import Journal
from edgeopt_agent.settings import Settings


def die_at(state, when):
    commit = Journal._commit

    def deadly(self, record, new=False):
        if record.state != state:
            return commit(self, record, new)
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, record, new)
        return os.kill(os.getpid(), signal.SIGKILL)

    Journal._commit = deadly


def main():
    given, kill = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    given["data_dir"] = Path(given["data_dir"])
    if kill:
        die_at(**kill)
    asyncio.run(service.run(Settings(**given), lambda port: print(port, flush=True)))


if __name__ == "__main__":
    main()
