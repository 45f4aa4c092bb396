"""`python -m edgeopt.cli.attached`: the command line, which ends when the program that started it does.

That program holds the other end of this process's stdin and never writes to it.
"""

import os
import sys
import threading
import time

from edgeopt.cli.main import main
from edgeopt.platform import processes, signals

_PATIENCE_S = 3.0


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    signals.terminate_self()  # the command unwinds and removes what it left on the disk
    time.sleep(_PATIENCE_S)
    processes.end_own_group()


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True, name="end-with-parent").start()
    main()
