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
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a single file.", show_default=False)],
    trust: Annotated[
        list[Path] | None,
        typer.Option(metavar="PUB", help="A public key that must have signed it; several: any one of them."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The source model: is it still the one that the bundle was made from?")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check a bundle: digests, signature, golden outputs, and the device that it was proved on.

    \b
    Valid: all is as it was when it was proved. Stale: it works, but the device, a driver, a runtime
    or the source model is another than then; which, and how to refresh it, is said. Both leave
    with 0. Broken: 3 where its files are damaged or not signed by a key that was given, 6 where it
    gives other results than when it was made.

    \b
    Examples:
      edgeopt verify model.edgeopt
      edgeopt verify model.edgeopt --trust release-key.pub
      edgeopt verify model.edgeopt --model model.onnx
      edgeopt verify model.edgeopt --json | jq .data.status
    """

    def work(emit: "Emit") -> "Check":
        from edgeopt.bundle.sign import load_public_key
        from edgeopt.runtime.check import check

        return check(bundle, emit, [load_public_key(file) for file in trust or ()], model)

    execute("verify", work, show, json)


def show(result: "Check", console: "Console") -> None:
    from edgeopt.graph.accuracy import decibels

    console.print(f"{result.bundle}: all {result.files} files are as they were written.", markup=False)
    console.print(_signature(result), markup=False)
    console.print(
        f"Golden samples: {decibels(result.accuracy_db)} against {result.held_against} "
        f"(at least {result.floor_db:.1f} dB is needed).",
        markup=False,
    )
    if result.processing:
        console.print(result.processing, markup=False)
    if result.evidence:
        console.print(result.evidence, markup=False)
    if result.predicted:
        return
    if not result.changes:
        console.print("Valid: proved on a device like this one.")
        return
    parts = ", ".join(each.part for each in result.changes)
    console.print(f"Stale: {parts} changed since it was proved, so its speed is not proved here.", markup=False)
    for each in result.changes:
        console.print(f"  {each.part}: {each.then}  ->  {each.now}", markup=False)
    console.print(result.refresh, markup=False)


def _signature(result: "Check") -> str:
    if result.signed_by is None:
        return "Not signed."
    said = "which is trusted" if result.trusted else "not checked against trusted keys (--trust PUB does)"
    return f"Signed by the key {result.signed_by[:64]}, {said}."
