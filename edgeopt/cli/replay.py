"""`edgeopt replay`: a bundle again, from its deployment profile and the source model."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.replaying.order import Order

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.replaying.replay import Rebuilt


@asks(Order)
def replay(order: Order, json: JsonFlag = False) -> None:
    """Rebuild a bundle from its deployment profile and the source model, without searching.

    \b
    Every step is done again as it was recorded; no data is needed, as the profile holds what
    calibration found. The evidence stays that of the first bundle, and says so, unless --measure
    takes it anew.

    \b
    Examples:
      edgeopt replay model.edgeopt model.onnx -o again.edgeopt
      edgeopt replay model.toml model.onnx -o model.edgeopt --data data.npz --measure
      edgeopt bench again.edgeopt --against model.edgeopt      # is it as fast?
    """
    from edgeopt.replaying.replay import replay as rebuilt

    execute("replay", lambda emit: rebuilt(order, emit), show, json, "no bundle was written")


def show(result: "Rebuilt", console: "Console") -> None:
    from edgeopt.graph.accuracy import decibels

    for number, step in enumerate(result.steps or ("the source model as it came",), 1):
        console.print(f"  {number}. {step}", markup=False)
    if result.same_files:
        console.print("The model's files are those of the first bundle, byte for byte.")
    if result.alike_db is not None:
        console.print(
            f"Golden outputs against those of the first bundle: {decibels(result.alike_db)}.", markup=False
        )
    if result.accuracy_db is not None:
        console.print(
            f"Golden samples: {decibels(result.accuracy_db)} against the source model "
            f"(at least {result.floor_db or 0:.1f} dB is needed).",
            markup=False,
        )
    console.print(f"{_told(result)}: {result.summary}", markup=False)
    console.print(f"Bundle: {result.bundle}  ({result.seconds:.1f} s)", markup=False)


def _told(result: "Rebuilt") -> str:
    if result.measured:
        return "Measured here"
    return "Not measured again; the first bundle's evidence" if result.evidence is not None else "Not measured"
