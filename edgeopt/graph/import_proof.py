"""The proof of an import in the metadata of a model; docs/importing.md lists the keys."""

import json
from collections.abc import Mapping

import msgspec

from edgeopt.decoding import thread_safe

PREFIX = "edgeopt.import."


class ImportProof(msgspec.Struct, frozen=True):
    """What a model was imported from, and how well it agrees with that."""

    source: str
    """Name of the file, folder or code."""
    kind: str
    framework: str
    """Name and version, as of the exporter."""
    exporter: str
    runtime: str
    """Of the ONNX model in the proof."""
    snr_db: float
    """Of the worst output; 200 where all are equal."""
    floor_db: float
    samples: int
    sizes: tuple[dict[str, int], ...] = ()
    """Of open dimensions, those of each run beside the samples."""
    outputs: dict[str, float] = {}
    """Agreement of each output in dB."""
    pre: str = ""
    """Name of the file beside the model that does what its processor did before it."""
    pre_db: float = 0.0
    """How well that agrees with the processor."""

    @property
    def sizes_text(self) -> str:
        """`batch=2, batch=3`."""
        return ", ".join(" ".join(f"{name}={size}" for name, size in one.items()) for one in self.sizes)


def as_metadata(proof: ImportProof) -> dict[str, str]:
    return {f"{PREFIX}{name}": _written(value) for name, value in msgspec.to_builtins(proof).items()}


def import_proof_in(metadata: Mapping[str, str]) -> ImportProof | None:
    """None for a model that was not imported, and for metadata of another program under these keys."""
    found = {}
    for field in msgspec.structs.fields(ImportProof):
        text = metadata.get(f"{PREFIX}{field.name}")
        if text is not None:
            found[field.name] = text if field.type in {str, float, int} else _parsed(text)
    try:
        return msgspec.convert(found, thread_safe(ImportProof), strict=False)
    except msgspec.ValidationError:
        return None


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.10g}" if isinstance(value, float) else json.dumps(value)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
