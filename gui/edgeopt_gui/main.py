"""The entry point `edgeopt-gui`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from edgeopt.errors import EdgeoptError, MissingError, MissingExtraError
from edgeopt.version import __version__

# One importable module for each distribution of the `gui` extra.
MODULES = ("PySide6", "pyqtgraph")


def main(arguments: Sequence[str] | None = None) -> int:
    """Starts the desktop app and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="edgeopt-gui",
        description="The desktop app of edgeopt. It has no window yet in this version: use the command line.",
    )
    parser.add_argument("--version", action="version", version=f"edgeopt-gui {__version__}")
    parser.parse_args(arguments)
    try:
        open_window()
    except EdgeoptError as error:
        sys.stderr.write(f"edgeopt-gui: {error.message}\n  {error.hint}\n")
        return error.exit_code
    return 0


def open_window() -> None:
    """Raises MissingError: first for what is not installed, then because this version has no window."""
    if any(find_spec(module) is None for module in MODULES):
        raise MissingExtraError("gui", "The desktop app")
    raise MissingError(f"Version {__version__} has no window yet.", "Use the command line instead: edgeopt --help")


if __name__ == "__main__":
    sys.exit(main())
