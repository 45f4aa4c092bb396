"""`edgeopt verify`: does a bundle still hold on this device?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.events import Emit
    from edgeopt.runtime.check import Check


def verify(
    bundle: Annotated[
        Path, typer.Argument(help="A bundle, as written by `edgeopt optimize`.", show_default=False)
    ],
    trust: Annotated[
        list[Path] | None,
        typer.Option(metavar="PUB", help="A public key that must have signed it; several: any one of them."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check a bundle: digests, signature, golden outputs, and the device that it was proved on.

    \b
    Exit code 0: valid (perhaps stale, which is said); 3: damaged, or not signed by a key that was
    given; 6: other results than when it was made.

    \b
    Examples:
      edgeopt verify model.edgeopt
      edgeopt verify model.edgeopt --trust release-key.pub
      edgeopt verify model.edgeopt --json | jq .data.stale
    """

    def work(emit: "Emit") -> "Check":
        from edgeopt.bundle.sign import load_public_key
        from edgeopt.runtime.check import check

        return check(bundle, emit, [load_public_key(file) for file in trust or ()])

    execute("verify", work, show, json)


def show(result: "Check", console: "Console") -> None:
    from edgeopt.graph.accuracy import decibels

    console.print(f"{result.bundle}: all {result.files} files are as they were written.", markup=False)
    console.print(_signature(result), markup=False)
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


def _signature(result: "Check") -> str:
    if result.signed_by is None:
        return "Not signed."
    said = "which is trusted" if result.trusted else "not checked against trusted keys (--trust PUB does)"
    return f"Signed by the key {result.signed_by[:64]}, {said}."
