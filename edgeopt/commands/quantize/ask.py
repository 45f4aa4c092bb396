"""What `edgeopt quantize` and `compare-calibrations` do with a request: which of the works it asks for."""

from edgeopt.events import Emit, ignore
from edgeopt.quant.measured.records import Quantized, QuantizeRequest


def answer(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Quantizes, or only looks, where nothing is to be written."""
    if request.compare_calibrations:
        from edgeopt.commands.quantize.calibrations import only_compared

        return only_compared(request, emit)
    if request.check_targets and request.out is None and not request.sensitivity:
        from edgeopt.commands.quantize.on_targets import checked

        return checked(request, emit)
    from edgeopt.commands.quantize.quantize import quantize

    return quantize(request, emit)
