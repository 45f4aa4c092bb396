"""Signals that end a command."""

import _thread
import os
import signal
import sys
import threading

NUMBERS: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT)
"""The signals that end a command; on Windows also Ctrl-Break, which reaches a process that leads a group."""
if sys.platform == "win32":
    NUMBERS = (*NUMBERS, signal.SIGBREAK)


def can_interrupt() -> bool:
    """Whether another process can be sent SIGINT: on Windows, such a signal would end it at once."""
    return os.name == "posix"


def interrupt(pid: int) -> None:
    """Sends SIGINT to another process."""
    os.kill(pid, signal.SIGINT)


def terminate_self() -> None:
    """Handles SIGTERM in the main thread of this process, from any thread."""
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        _thread.interrupt_main(signal.SIGTERM)  # `os.kill` would end the process at once


def send_to_main_thread(number: int) -> None:
    """Sends a signal to the main thread of this process."""
    main = threading.main_thread().ident
    if not hasattr(signal, "pthread_kill"):
        _thread.interrupt_main(signal.Signals(number))
    elif main is not None:
        signal.pthread_kill(main, number)
