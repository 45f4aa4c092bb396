"""Starts Python in a child process: the interpreter here, or the program of the desktop package."""

import sys

_WHAT_RUNS = ("-m", "-c")


def python_command(*arguments: str) -> tuple[str, ...]:
    """The command line of a Python process: options, then `-m MODULE` or `-c PROGRAM`, then its arguments."""
    if getattr(sys, "frozen", False):
        # Its interpreter got all options at the build, and never sees PYTHONPATH or the working directory.
        begin = next(place for place, each in enumerate(arguments) if each in _WHAT_RUNS)
        arguments = arguments[begin:]
    return (sys.executable, *arguments)
