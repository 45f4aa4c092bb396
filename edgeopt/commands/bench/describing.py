"""What sides take as inputs, asked of trials, because loading a model may crash or never end."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import combinations
from pathlib import Path

import msgspec

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Available, TensorInfo
from edgeopt.errors import EdgeoptError, MissingError, ModelError, TrialError, UsageError, no_outputs
from edgeopt.measure.contender import ask, load_patience_s, reason
from edgeopt.measure.host import LocalHost
from edgeopt.measure.messages import Answer, Describe, Described, Load
from edgeopt.measure.serve import Failed

_ERRORS: dict[str, type[EdgeoptError]] = {each.code: each for each in (UsageError, MissingError)}
# Compiling for these may take minutes, and says nothing of the inputs that a processor's session does not say.
_ACCELERATED = ("cuda", "tensorrt", "gpu", "npu", "auto", "qnn", "coreml", "directml", "xnnpack", "openvino")
# The options that change what a model takes.
_SHAPING = ("free_dimensions",)

Tensors = tuple[TensorInfo, ...]


def describe_all(
    loads: Sequence[Load], names: Sequence[str], folder: Path, timeout_s: float | None = None
) -> list[Tensors | None]:
    """The inputs of each side; None for a program, which does not report them. `timeout_s` limits each load."""
    known: dict[bytes, Tensors] = {}
    found: list[Tensors | None] = []
    for load, name in zip(loads, names, strict=True):
        if load.backend == "command":
            found.append(None)
            continue
        # Backends do not change what a model takes.
        key = msgspec.json.encode((load.model_path, _shaping(load)))
        if key not in known:
            known[key] = _inputs(load, name, folder, timeout_s)
        found.append(known[key])
    return found


def narrowest(described: Sequence[Tensors | None], names: Sequence[str]) -> Tensors | None:
    """What fits all sides: each axis with the size that one of them fixes it to; raises ModelError."""
    known = [(name, found) for name, found in zip(names, described, strict=True) if found is not None]
    for one, other in combinations(known, 2):
        _same_inputs(one, other)
    if not known:
        return None
    return tuple(
        _narrowed([next(t for t in found if t.name == tensor.name) for _, found in known])
        for tensor in known[0][1]
    )


def _narrowed(alike: list[TensorInfo]) -> TensorInfo:
    ranked = [tensor for tensor in alike if tensor.rank_known]
    if not ranked:
        return alike[0]
    axes = zip(*(tensor.shape for tensor in ranked), strict=True)
    # A name says more than nothing: samples are made up by it.
    shape = tuple(min(axis, key=lambda d: (not isinstance(d, int), not isinstance(d, str))) for axis in axes)
    return msgspec.structs.replace(ranked[0], shape=shape)


def _shaping(load: Load) -> dict[str, str | int | float | bool | dict[str, list[int]]]:
    return {name: load.options[name] for name in _SHAPING if load.options.get(name)}


def _inputs(load: Load, name: str, folder: Path, timeout_s: float | None) -> Tensors:
    answer: Answer | None = None
    asked = partial(_asked, load, timeout_s=timeout_s or load_patience_s(load), folder=folder)
    peer = _on_processor(load)
    if peer is not None:
        # A model that only the accelerator can load is described by the accelerator.
        try:
            answer = asked(peer)
        except TrialError:
            answer = None
    if not isinstance(answer, Described):
        try:
            answer = asked(load.backend)
        except TrialError as error:
            hint = "The file may be damaged."
            if error.ending == "hung":
                hint = "Give it longer with --load-timeout SECONDS; or the file may be damaged."
            raise ModelError(f"Loading '{name}' {error.message.rstrip('.')}.", hint) from None
    if isinstance(answer, Failed):
        kind = _ERRORS.get(answer.code, ModelError)
        hint = answer.hint or "Check it with its own runtime."
        if kind is ModelError and load.backend not in {"url", "command"} and not load.custom_ops:
            hint = f"{hint.rstrip('.')}; custom operators need their library: --custom-ops LIB"
        raise kind(answer.message, hint)
    if not isinstance(answer, Described):
        raise ModelError(reason(answer), "Check the file with its own runtime.")
    if not answer.outputs:
        raise no_outputs(name)
    return answer.inputs


def _asked(load: Load, backend: str, timeout_s: float, folder: Path) -> Answer:
    with closing(LocalHost(folder).start()) as child:
        return ask(child, Describe(backend, load.model_path, load.custom_ops, _shaping(load)), timeout_s)


def _accelerated(load: Load) -> bool:
    return load.backend.rpartition("-")[2] in _ACCELERATED


def _on_processor(load: Load) -> str | None:
    """The backend of the same runtime that opens nothing but the processor; None: the side's own will do."""
    if not _accelerated(load):
        return None
    name = f"{load.backend.partition('-')[0]}-cpu"
    peer = next((backend for backend in BACKENDS if backend.name == name), None)
    return name if peer is not None and isinstance(peer.available(), Available) else None


def _same_inputs(one: tuple[str, Tensors], two: tuple[str, Tensors]) -> None:
    (first_name, first), (name, other) = one, two
    theirs = {tensor.name: tensor for tensor in other}
    odd = next((t for t in first if t.name in theirs and not _alike(t, theirs[t.name])), None)
    if {tensor.name for tensor in first} != set(theirs):
        said = f"{', '.join(t.name for t in first) or 'none'} and {', '.join(theirs) or 'none'}"
    elif odd is not None:
        said = f"'{odd.name}' is {_described_tensor(odd)} and {_described_tensor(theirs[odd.name])}"
    else:
        return
    raise ModelError(
        f"'{first_name}' and '{name}' take different inputs: {said}.",
        "Compare models with the same inputs.",
    )


def _alike(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether some data fits both."""
    if one.dtype != other.dtype:
        return False
    if not (one.rank_known and other.rank_known):
        return True
    fixed = [
        (a, b) for a, b in zip(one.shape, other.shape, strict=False) if isinstance(a, int) and isinstance(b, int)
    ]
    return len(one.shape) == len(other.shape) and all(a == b for a, b in fixed)


def _described_tensor(tensor: TensorInfo) -> str:
    return f"{tensor.dtype} [{', '.join('?' if d is None else str(d) for d in tensor.shape)}]"
