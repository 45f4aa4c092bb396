"""Records of the comparison of two models."""

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.events import TokenFigures
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.diff import GraphDiff
from edgeopt.graph.levels import LevelAccuracy, Tail
from edgeopt.notebook import NotebookRecord


class ComparedModel(msgspec.Struct, frozen=True):
    name: str
    path: str
    kind: str
    """`ONNX model`, `OpenVINO IR model` or `bundle`."""
    size_bytes: int
    nodes: int
    operators: dict[str, int]
    """Number of nodes of each type, including nodes in subgraphs."""
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    runtime: str = ""
    """Runtime that ran the model."""


class Probe(msgspec.Struct, frozen=True):
    """One intermediate value of both models."""

    value: str
    other: str
    """Name of the value in the second model."""
    node: str
    """Node that computes the value in the first model."""
    other_node: str
    snr_db: float
    max_abs: float
    problem: str | None = None
    rescaled: bool = False
    """Whether the values differ only by a factor, of the whole or of each channel, which later layers may undo."""


class LayerComparison(msgspec.Struct, frozen=True):
    """Point where the results diverge on the path to the output that differs most."""

    output: str
    compared: int
    """Number of values on that path that both models have."""
    first: Probe | None
    """First value that differs; None if none but the output itself does."""
    probes: tuple[Probe, ...] = ()
    """All values that were compared, in the order in which the first model computes them."""
    not_compared: str = ""


class ModelComparison(NotebookRecord, msgspec.Struct, frozen=True):
    first: ComparedModel
    second: ComparedModel
    within: bool
    """Whether the outputs reach the floor at each level of input, and in the worst tenth of the samples nearly."""
    floor_db: float
    snr_db: float | None
    """Ratio of the worst output, on the level of input where it is lowest."""
    samples: int
    data: str
    """Source of the samples."""
    tokens: TokenFigures | None = None
    """Agreement of the tokens of two language models on texts; None for other models and samples."""
    floor_kl: float | None = None
    """Largest mean divergence of the tokens in nats, which decides instead of decibels; None if it does not."""
    floor_top1: float | None = None
    """Least share of positions with the same most likely token, besides."""
    weakest: LevelAccuracy | None = None
    """Level of input that decides, if there are several."""
    tail: Tail | None = None
    """Lowest sample, and the worst tenth of the samples; None if no sample differs."""
    is_tail_below: bool = False
    """Whether the worst tenth of the samples is too far below the floor."""
    outputs: tuple[OutputAccuracy, ...] = ()
    not_compared: str = ""
    """Reason why the outputs were not compared; empty if they were."""
    notes: tuple[str, ...] = ()
    layers: LayerComparison | None = None
    graph: GraphDiff | None = None
    no_graph: str = ""
    """Reason why there is no diff of the graphs; empty if there is one."""
