"""Proof of an import in the metadata of a model; docs/importing.md lists the keys."""

import json
from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.decoding import thread_safe

PREFIX = "edgeopt.import."
LIMITS_KEY = f"{PREFIX}limits"


class SizeLimits(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"minimum": "least", "maximum": "most"},
):
    """Sizes of an axis for which a model was proved; `maximum` is None without an upper limit."""

    minimum: int = 1
    maximum: int | None = None

    def __str__(self) -> str:
        return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"


InputLimits = dict[str, dict[str, SizeLimits]]
"""Limits of open dimensions by input and axis; an axis is a string, like keys of JSON and TOML."""


class ImportProof(msgspec.Struct, frozen=True):
    """Source of an imported model, and its accuracy relative to that source."""

    source: str
    """Name of the source file, folder or code."""
    kind: str
    framework: str
    """Name and version of the source framework; `exporter` has the same form."""
    exporter: str
    runtime: str
    """Runtime of the ONNX model in the proof."""
    snr_db: float
    """SNR of the worst output in dB; 200 if all are equal."""
    floor_db: float
    samples: int
    sizes: tuple[dict[str, int], ...] = ()
    """Sizes of the open dimensions in each run beside the samples."""
    outputs: dict[str, float] = {}
    """SNR of each output in dB."""
    limits: InputLimits = {}
    pre: str = ""
    """Name of the file beside the model that does its processor's preprocessing; empty if there is none."""
    pre_db: float = 0.0
    """SNR of that preprocessing relative to the processor, in dB."""

    @property
    def sizes_text(self) -> str:
        return sizes_text(self.sizes)


def sizes_text(sizes: Sequence[Mapping[str, int]]) -> str:
    """Returns the sizes of a proof in words: `batch 1, 2; seq 63, 64; batch=2 seq=64`."""
    alone: dict[str, list[str]] = {}
    for one in sizes:
        if len(one) == 1:
            for name, size in one.items():
                alone.setdefault(name, []).append(str(size))
    together = [" ".join(f"{name}={size}" for name, size in one.items()) for one in sizes if len(one) > 1]
    return "; ".join([f"{name} {', '.join(each)}" for name, each in alone.items()] + together)


def as_metadata(proof: ImportProof) -> dict[str, str]:
    return {f"{PREFIX}{name}": _written(value) for name, value in msgspec.to_builtins(proof).items()}


def import_proof_in(metadata: Mapping[str, str]) -> ImportProof | None:
    """Reads an import proof from metadata; None if there is none or another program wrote these keys."""
    found = {}
    for field in msgspec.structs.fields(ImportProof):
        text = metadata.get(f"{PREFIX}{field.name}")
        if text is not None:
            found[field.name] = text if field.type in {str, float, int} else _parsed(text)
    try:
        return msgspec.convert(found, thread_safe(ImportProof), strict=False)
    except msgspec.ValidationError:
        return None


def decoded_limits(text: str) -> InputLimits:
    """Returns the limits in a metadata value; empty if another program wrote it."""
    try:
        return msgspec.json.decode(text, type=thread_safe(InputLimits)) if text else {}
    except msgspec.MsgspecError:
        return {}


def outside(limits: InputLimits, shapes: Mapping[str, Sequence[int]]) -> str:
    """Returns a sentence that names an input with a size outside its limits, or an empty text."""
    for name, axes in limits.items():
        shape = shapes.get(name, ())
        for axis, limit in axes.items():
            size = shape[int(axis)] if int(axis) < len(shape) else limit.minimum
            if size < limit.minimum or (limit.maximum is not None and size > limit.maximum):
                return f"The input '{name}' has the size {size} in dimension {axis}; the model is for {limit}."
    return ""


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.10g}" if isinstance(value, float) else json.dumps(value)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
