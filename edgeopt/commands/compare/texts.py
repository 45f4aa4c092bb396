"""Texts that two language models are compared on, and the goal that a search has for them."""

from pathlib import Path
from typing import NamedTuple

from edgeopt.backends.base import Feeds, TensorInfo
from edgeopt.bundle.plan import limits_in
from edgeopt.bundle.read import Bundle
from edgeopt.data.judging.goals import KL, TOKEN_FLOORS, TOP1, Goal
from edgeopt.measure.messages import Described
from edgeopt.pipeline.decoder.texts import read_texts
from edgeopt.pipeline.decoder.workloads import DecoderModel, decoder_in
from edgeopt.text.tokenizer import FOLDER, text_folder
from edgeopt.units import count

TEXTS, TOKENS = 8, 64
"""Number of texts, and of the tokens of each; fewer tokens if the context of a model is shorter."""
GOAL = Goal(metric=KL, floor=TOKEN_FLOORS[KL], floor_top1=TOKEN_FLOORS[TOP1], budget="")

Ports = tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]
"""Inputs and outputs of a model."""


class TextSamples(NamedTuple):
    feeds: list[Feeds]
    words: str
    """Source of the texts."""


def text_samples(
    paths: tuple[Path, Path],
    bundles: tuple[Bundle | None, Bundle | None],
    ports: tuple[Ports, Ports],
    data: Path | None,
) -> TextSamples | None:
    """Returns whole texts with an empty cache; None if not both models are decoders, or if the data is no text."""
    if data is not None and (data.suffix in {".npz", ".npy"} or data.is_dir()):
        return None
    first, second = (_decoder(*each) for each in zip(paths, bundles, ports, strict=True))
    if first is None or second is None:
        return None
    length = min(each.cache.max_context_tokens or TOKENS for each in (first, second))
    folder = text_folder(paths[0]) if bundles[0] is None else bundles[0].folder / FOLDER
    vocabulary = min(first.vocabulary, second.vocabulary)
    texts = read_texts(folder, data, first.cache.tokens, min(length, TOKENS), vocabulary)
    sources = {"data": data.name if data is not None else "", "sample": "a text of edgeopt"}
    rows = texts.rows[:TEXTS]
    words = f"texts of {count(len(rows[0]), 'token')} from {sources.get(texts.source, 'random tokens')}"
    return TextSamples([first.feeds(row) for row in rows], words)


def _decoder(path: Path, bundle: Bundle | None, ports: Ports) -> DecoderModel | None:
    described = Described(*ports)
    if bundle is None:
        return decoder_in(described, {} if path.suffix == ".xml" else limits_in(path))
    deployment = bundle.deployment
    limits = {each.name: each.limits for each in deployment.inputs if each.limits}
    return decoder_in(described, limits, declared=deployment.cache)
