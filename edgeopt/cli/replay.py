"""`edgeopt replay`: a bundle again, from its deployment profile and the source model."""

from typing import TYPE_CHECKING

from edgeopt.bundle.request import ReplayRequest
from edgeopt.cli.console import JsonFlag, asks, execute, next_steps
from edgeopt.views.blocks import Block, Listed, lines

if TYPE_CHECKING:
    from edgeopt.pipeline.replay import Rebuilt


@asks(ReplayRequest)
def replay(request: ReplayRequest, json: JsonFlag = False) -> None:
    """Rebuild a bundle from its deployment profile and the source model, without a search.

    \b
    Repeats every recorded step. Needs no calibration data, because the profile holds the results;
    it does not for the quantizers of NNCF and ONNX Runtime, whose models are refused. An exported
    profile has no golden samples: pass --data, or they are generated, which not every model takes.
    The evidence stays that of the first bundle and is marked so, unless --measure proves it again.

    \b
    Examples:
      edgeopt replay model.edgeopt model.onnx -o again.edgeopt
      edgeopt replay model.toml model.onnx -o model.edgeopt --data data.npz --measure
      edgeopt bench again.edgeopt --against model.edgeopt      compare the speed of both
    """
    from edgeopt.pipeline.replay import replay as rebuilt

    def shown(result: "Rebuilt") -> list[Block]:
        return [*show(result), next_steps(request.out, request.model, request.data, pre=request.pre)]

    execute("replay", lambda emit: rebuilt(request, emit), shown, json, "no bundle was written")


def show(result: "Rebuilt") -> list[Block]:
    from edgeopt.graph.accuracy import agreement

    texts = []
    if result.same_files:
        texts.append("The model's files are those of the first bundle, byte for byte.")
    if result.alike_db is not None:
        texts.append(f"Golden outputs: {agreement(result.alike_db, 'those of the first bundle', against=True)}.")
    if result.accuracy_db is not None:
        needed = f"at least {result.floor_db or 0:.1f} dB is needed"
        texts.append(f"Golden samples: {agreement(result.accuracy_db, against=True)} ({needed}).")
    texts.append(f"{_measured_text(result)}: {result.summary}")
    texts.append(f"Bundle: {result.bundle}  ({result.seconds:.1f} s)")
    steps = Listed(tuple(result.steps or ("the source model as it came",)), numbered=True)
    return [steps, *lines(texts)]


def _measured_text(result: "Rebuilt") -> str:
    if result.measured:
        return "Measured here"
    return "Not measured again; the first bundle's evidence" if result.evidence is not None else "Not measured"
