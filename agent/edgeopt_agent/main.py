"""The entry point `edgeopt-agent`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from edgeopt.errors import EdgeoptError, MissingError, MissingExtraError
from edgeopt.version import __version__

# One importable module for each distribution of the `agent` extra.
MODULES = ("starlette", "uvicorn", "websockets", "prometheus_client", "grpc", "cryptography")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the agent's command line and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="edgeopt-agent",
        description="The headless agent of edgeopt. This version cannot serve bundles yet; "
        "use the Python call edgeopt.load(BUNDLE) instead.",
    )
    parser.add_argument("--version", action="version", version=f"edgeopt-agent {__version__}")
    parser.parse_args(arguments)
    try:
        serve()
    except EdgeoptError as error:
        sys.stderr.write(f"edgeopt-agent: {error.message}\n  {error.hint}\n")
        return error.exit_code
    return 0


def serve() -> None:
    """Raises MissingError: first for what is not installed, then because this version has no server."""
    if any(find_spec(module) is None for module in MODULES):
        raise MissingExtraError("agent", "The agent")
    raise MissingError(
        f"Version {__version__} cannot serve bundles yet.",
        "Load a bundle from Python instead: edgeopt.load(BUNDLE).run(feeds)",
    )


if __name__ == "__main__":
    sys.exit(main())
