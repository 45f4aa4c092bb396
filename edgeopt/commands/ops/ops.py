"""`edgeopt ops`: the report, with what it means for a model where one is given."""

import msgspec

from edgeopt.commands.ops.assess import Choice, assess
from edgeopt.commands.ops.compatibility import compatibility, kinds_of
from edgeopt.commands.ops.request import Request, operators
from edgeopt.commands.ops.result import Report
from edgeopt.errors import ModelError
from edgeopt.events import Emit
from edgeopt.hw.probe import probe


def ops(request: Request, emit: Emit) -> Report:
    choice = Choice(request.backend, operators(request), quick=request.quick, again=request.again)
    if request.model is None:
        return assess(probe(), choice, emit)
    from edgeopt.graph.analysis.onnx import analyze_onnx

    analysis = analyze_onnx(request.model)
    used, precisions = kinds_of(analysis)
    if not used:
        raise ModelError(
            f"No operator of '{request.model.name}' has a test.",
            "List its operators: edgeopt analyze MODEL",
        )
    report = assess(probe(), msgspec.structs.replace(choice, only=used, precisions=precisions), emit)
    return msgspec.structs.replace(report, model=compatibility(analysis, report))
