"""`edgeopt ops`: single operators on this device, by backend."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.cli.markdown import MarkdownFlag, refuse_two_voices
from edgeopt.commands.ops.request import Request

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.commands.ops.case import Report
    from edgeopt.events import Emit


@asks(Request)
def ops(request: Request, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
    """Test the operators of each backend on this device: correctness and speed.

    \b
    About a thousand models with one operator each run on every available backend. Their outputs are
    compared with numpy in double precision; crashes and hangs are results too. Results are cached.

    \b
    Examples:
      edgeopt ops                               all operators on all backends
      edgeopt ops model.onnx                    the operators of a model
      edgeopt ops --only Conv,MatMul --again
      edgeopt ops --quick --backend openvino-cpu
      edgeopt ops --markdown > operators.md
    """

    def work(emit: "Emit") -> "Report":
        from edgeopt.commands.ops.ops import ops

        refuse_two_voices(json, markdown)
        return ops(request, emit)

    def show(report: "Report") -> "list[Block] | str":
        from edgeopt.cli import ops_show

        return ops_show.markdown(report) if markdown else ops_show.show(report)

    execute(
        "ops",
        work=work,
        show=show,
        json=json,
        left_behind="results so far are kept; run the same command to continue",
    )
