"""The entry point `edgeopt-gui`."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from edgeopt.errors import EdgeoptError, MissingExtraError
from edgeopt.version import __version__
from edgeopt_gui import display

# One importable module for each distribution of the `gui` extra.
MODULES = ("PySide6", "pyqtgraph")


def main(arguments: Sequence[str] | None = None) -> int:
    """Starts the desktop app and returns its exit code."""
    parser = argparse.ArgumentParser(prog="edgeopt-gui", description="The desktop app of edgeopt.")
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="MODEL|BUNDLE",
        help="what to open or import",
    )
    parser.add_argument("--page", default="", help="page to open first: device, model, optimize or live")
    parser.add_argument(
        "--data", type=Path, metavar="FILE|FOLDER", help="samples of the model, or texts of a language model"
    )
    parser.add_argument("--optimize", action="store_true", help="start the search for the model")
    parser.add_argument("--version", action="version", version=f"edgeopt-gui {__version__}")
    options = parser.parse_args(arguments)
    try:
        return open_window(options.path, options.page, options.data, options.optimize)
    except EdgeoptError as error:
        sys.stderr.write(f"edgeopt-gui: {error.message}\n  {error.hint}\n")
        return error.exit_code


def open_window(path: Path | None, page: str, data: Path | None = None, optimize: bool = False) -> int:
    """Raises MissingError where Qt, a library that it needs, or a screen is not here."""
    specs = [find_spec(module) for module in MODULES]
    if any(spec is None for spec in specs):
        raise MissingExtraError("gui", "The desktop app")
    home = Path(next(iter(specs[0].submodule_search_locations or ()), "")) if specs[0] else Path()
    display.check(os.environ, home / "Qt" / "plugins" / "platforms")
    try:
        from edgeopt_gui import application
    except ImportError as error:
        if error.name is None and ".so" in str(error):
            raise display.missing_library(error) from error
        raise
    return application.run(path, page, data, optimize)


if __name__ == "__main__":
    sys.exit(main())
