"""Child processes that run Python: a function called in one, whose crash or hang costs this process nothing."""

import os
import sys
from pathlib import Path

from edgeopt.hw.device import Unavailable
from edgeopt.platform.processes import crash_name

# -P and an appended path: neither the current folder nor this package's folder may hide another module.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from edgeopt.hw import child; child.main(*sys.argv[2:])"
_REASON_LIMIT = 300


def call_in_child(library: str, function: str, timeout_s: float) -> object:
    """Calls `library.function()` in a child process; returns its result as plain data, or `Unavailable`."""
    import json
    import subprocess
    from contextlib import ExitStack, suppress

    from edgeopt.workspace import temporary_folder

    root = str(Path(__file__).resolve().parents[2])
    name = f"{library}.{function}()"
    environment = dict(os.environ)
    try:
        with ExitStack() as stack:
            # ONNX Runtime leaves a file in the folder for temporary files. Named as a search's, and swept up with
            # those; where none can be made, it goes without.
            with suppress(OSError):
                folder = temporary_folder("work")
                environment["TMPDIR"] = stack.enter_context(folder)
            done = subprocess.run(
                python_command("-P", "-c", _PROGRAM, root, library, function),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                encoding="utf-8",
                errors="replace",
                env=environment,
            )
    except subprocess.TimeoutExpired:
        return Unavailable(f"{name} did not answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Unavailable(f"{name} could not be started: {error}")
    if crash := crash_name(done.returncode):
        return Unavailable(f"{name} crashed: {crash}")
    if done.returncode:
        return Unavailable(f"{name} failed: {_last_line(done.stderr)}")
    try:
        return json.loads(_last_line(done.stdout, limit=None))
    except ValueError:
        return Unavailable(f"{name} returned invalid JSON")


def main(library: str, function: str) -> None:
    """The child's side. The answer has the real stdout for itself: libraries print there while they load."""
    import importlib
    import json

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    member = getattr(importlib.import_module(library), function)
    answers.write(json.dumps(plain(member())) + "\n")
    answers.flush()
    # Runtimes have been seen to crash while the interpreter winds down; the answer is out by now.
    os._exit(0)


def _last_line(text: str, limit: int | None = _REASON_LIMIT) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:limit] if lines else "it said nothing"


def plain(value: object) -> object:
    """The value as JSON could hold it, or None where it cannot."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "_asdict"):
        return {str(k): plain(v) for k, v in value._asdict().items()}
    if isinstance(value, set | frozenset):
        return [plain(v) for v in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None


_WHAT_RUNS = ("-m", "-c")


def python_command(*arguments: str) -> tuple[str, ...]:
    """The command line of a Python process: options, then `-m MODULE` or `-c PROGRAM`, then its arguments."""
    if getattr(sys, "frozen", False):
        # Its interpreter got all options at the build, and never sees PYTHONPATH or the working directory.
        begin = next(place for place, each in enumerate(arguments) if each in _WHAT_RUNS)
        arguments = arguments[begin:]
    return (sys.executable, *arguments)
