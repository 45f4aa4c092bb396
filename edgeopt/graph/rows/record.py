"""The finding about the rows of a batch, which bundles record; read on devices without `onnx`."""

from typing import Literal

import msgspec


class RowAnalysis(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    rows: Literal["independent", "mixed", "unknown"]
    sentence: str = ""
    """The operator that mixes rows or that no rule decides, with its name, and what it does."""
