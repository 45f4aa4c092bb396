"""The process of a job: the command line of edgeopt, which ends when the app does, however that ends.

The app holds the other end of this process's stdin and never writes to it.
"""

import os
import sys
import threading
import time

from edgeopt.cli.main import main
from edgeopt.platform import processes, signals

_PATIENCE_S = 3.0


def _follow_the_app() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    signals.terminate_self()  # the command unwinds and removes what it left on the disk
    time.sleep(_PATIENCE_S)
    processes.end_own_group()


if __name__ == "__main__":
    threading.Thread(target=_follow_the_app, daemon=True, name="follow-the-app").start()
    main()
