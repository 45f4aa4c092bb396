"""Inputs and outputs as Triton's configuration states them, by the rules of its own checker."""

from collections.abc import Sequence

from edgeopt.backends.base import TensorInfo
from edgeopt.commands.export.prototext import Word

NAME = "triton"
DATA_TYPES = {
    "bool": "TYPE_BOOL",
    "str": "TYPE_STRING",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    **{f"{kind}{bits}": f"TYPE_{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


def unsaid(ports: Sequence[TensorInfo]) -> str:
    """Why these cannot be in a configuration, as the end of a sentence; empty if they can."""
    for port in ports:
        if not port.rank_known:
            return f"nothing is known of the number of dimensions of '{port.name}'"
        if port.dtype not in DATA_TYPES:
            return f"Triton has no name for the type of '{port.name}', {port.dtype}"
        if 0 in port.shape:
            return f"a dimension of '{port.name}' is 0"
    return ""


def open_axis(ports: Sequence[TensorInfo]) -> str:
    """Why the first dimension of these is no open batch axis, as a sentence's end; empty where it is."""
    names = set()
    for port in ports:
        if not port.shape:
            return f"'{port.name}' is a single number"
        if isinstance(port.shape[0], int):
            return f"the first dimension of '{port.name}' is {port.shape[0]}"
        names.add(port.shape[0])
    named = sorted(str(name) for name in names - {None})
    return f"the first dimensions have different names: {', '.join(named)}" if len(named) > 1 else ""


def message(port: TensorInfo, batched: bool) -> dict[str, object]:
    """A ModelInput or ModelOutput; the batch axis is not written, and a scalar needs a dimension of 1."""
    shape = port.shape[1:] if batched else port.shape
    dims = [dim if isinstance(dim, int) else -1 for dim in shape]
    fields: dict[str, object] = {
        "name": port.name,
        "data_type": Word(DATA_TYPES[port.dtype]),
        "dims": dims or [1],
    }
    if not dims and batched:
        fields["reshape"] = {"shape": []}
    return fields
