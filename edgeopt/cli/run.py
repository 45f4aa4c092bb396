"""`edgeopt run`: a bundle over data, outputs to a file."""

from typing import TYPE_CHECKING

from edgeopt.bundle.request import RunRequest
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.views.blocks import Block, Listed, WordsBlock

if TYPE_CHECKING:
    from edgeopt.bundle.runtime.offline import OfflineRun


@asks(RunRequest)
def run(request: RunRequest, json: JsonFlag = False) -> None:
    """Run a bundle or model on samples and write its outputs.

    \b
    Writes outputs.npz with one array per output, samples along the first axis. If the shape of an
    output varies, there is one array per sample, named OUTPUT/NUMBER.

    \b
    After an interruption, the same command continues with the missing samples.

    \b
    Examples:
      edgeopt run model.edgeopt --data data.npz -o results
      edgeopt run model.edgeopt --data data.npz -o results --batch 32
      edgeopt run model.edgeopt --data raw.npz -o results --process
      edgeopt run model.onnx --data folder-of-npy -o results --json
    """
    from edgeopt.bundle.runtime.offline import run_offline

    left_behind = "run the same command to continue with the missing samples"
    execute("run", lambda emit: run_offline(request, emit), show, json, left_behind)


def show(result: "OfflineRun") -> list[Block]:
    shapes = tuple(f"{name}  {shape}" for name, shape in list(result.outputs.items())[:20])
    ran = f"Ran {result.samples - result.resumed} samples"
    if result.resumed:
        ran += f" and took {result.resumed} from the interrupted run"
    return [WordsBlock(f"{ran}; outputs in {result.out}"), Listed(shapes)]
