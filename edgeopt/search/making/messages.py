"""What the maker is asked and what it answers: one JSON line each."""

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.measure.serve import Failed
from edgeopt.quant.settings import QuantSettings
from edgeopt.search.making.plans import Planning, Plans


class Inspect(msgspec.Struct, frozen=True, tag="inspect"):
    """Load the model, say what it is, and write generated samples for it."""

    model_path: str
    samples_path: str
    sample_count: int
    narrowed: tuple[TensorInfo, ...] = ()
    """Inputs with axes fixed to the sizes of the samples, although the model leaves them open."""


class Make(msgspec.Struct, frozen=True, tag="make"):
    recipe: str
    source_path: str
    base_path: str
    out_path: str
    samples_path: str
    check_first: int
    check_count: int
    calibration_count: int
    """The first samples calibrate; 0 where there is no data that may."""
    settings: QuantSettings
    passes: tuple[str, ...] | None = None
    backends: tuple[str, ...] = ()
    """Those that the variant is made for; empty: all that read it."""
    lowerings: tuple[str, ...] = ()
    planning: Planning | None = None
    floor_db: float | None = None
    """Of recipes that are made to hold it."""
    limit_s: float = 0.0
    """How long those may take."""


class Inspected(msgspec.Struct, frozen=True, tag="inspected"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    digest: str
    nodes: int
    operators: dict[str, int]
    size_bytes: int
    """With external data."""
    external: tuple[str, ...] = ()
    """Files of external data, relative to the model's folder."""


class Made(msgspec.Struct, frozen=True, tag="made"):
    ledger: tuple[LedgerEntry, ...]
    seconds: float
    plans: Plans | None = None
    """Of a recipe that makes a variant for each backend in one go."""


Request = Inspect | Make
Answer = Inspected | Made | Failed

decode_request = msgspec.json.Decoder(Request).decode
decode_answer = msgspec.json.Decoder(Answer).decode
