"""`edgeopt verify`: does a bundle still hold on this device?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.runtime.check import Check


def verify(
    bundle: Annotated[
        Path, typer.Argument(help="A bundle, as written by `edgeopt optimize`.", show_default=False)
    ],
    json: JsonFlag = False,
) -> None:
    """Check a bundle: digests, golden outputs, and whether it was proved on a device like this one.

    \b
    Exit code 0: valid (perhaps stale, which is said); 3: damaged; 6: other results than when it
    was made.

    \b
    Examples:
      edgeopt verify model.edgeopt
      edgeopt verify model.edgeopt --json | jq .data.stale
    """
    from edgeopt.runtime.check import check

    execute("verify", lambda emit: check(bundle, emit), show, json)


def show(result: "Check", console: "Console") -> None:
    from edgeopt.graph.accuracy import decibels

    console.print(f"{result.bundle}: all {result.files} files are as they were written.", markup=False)
    console.print(
        f"Golden samples: {decibels(result.accuracy_db)} against the source model "
        f"(at least {result.floor_db:.1f} dB is needed).",
        markup=False,
    )
    if result.stale:
        console.print(
            f"Stale: {', '.join(result.stale)} differ from the device it was proved on, so its speed is not "
            "proved here. Run `edgeopt optimize` again on this device.",
            markup=False,
        )
    else:
        console.print("Valid: proved on a device like this one.")
