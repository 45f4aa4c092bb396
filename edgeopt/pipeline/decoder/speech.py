"""Texts of a speech model's decoder: what the source writes after some audio, and the arrays that belong to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt import units
from edgeopt.backends.base import Feeds
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.generation import DecoderPorts
from edgeopt.bundle.runtime.locate import encoder_beside
from edgeopt.data.read import read_arrays
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.errors import DataError, ModelError, OptionReference
from edgeopt.measure.contender import Contender
from edgeopt.measure.messages import GivenInputs
from edgeopt.pipeline.baseline import first_running
from edgeopt.pipeline.decoder.generation import run_generation
from edgeopt.pipeline.decoder.texts import FEWEST_TEXTS, Texts
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.shapes.sized import together
from edgeopt.speech.tokens import TASKS, SpeechTokens
from edgeopt.text.tokenizer import load_tokenizer, text_folder

MAX_WINDOWS = 4
"""Windows of audio; a window takes as much memory as its keys and values in all layers."""
_MAX_TEXTS = 8
_SEED = 72
_DATA = OptionReference("data")


class SpeechTexts(NamedTuple):
    """Texts that belong to some audio."""

    texts: Texts
    prompt_tokens: int
    given: GivenInputs
    """Inputs that the encoder computed, with the sample of each text."""
    cache: Cache
    """Cache of the decoder, with its longest text."""

    def feeds(self) -> list[Feeds]:
        """Returns the inputs of each text that are the same at every step, mapped into memory."""
        samples = open_samples(Path(self.given.path))
        return [samples.feeds(place) for place in self.given.places]


class SpeechSource(NamedTuple):
    """Source model of a decoder with an encoder beside it."""

    model: Path
    cache: Cache
    ports: DecoderPorts
    empty: Feeds
    """Caches without a token."""
    backends: Sequence[str]
    runner: TrialRunner

    def step(self, ids: Sequence[int], given: Feeds) -> Feeds:
        """Returns the feeds of the first step of a text."""
        return {**self.ports.feeds(np.asarray(ids), 0), **self.empty, **given}

    @contextmanager
    def running(self, steps: Sequence[Feeds]) -> Iterator[Contender]:
        """Yields a trial of the decoder that has these samples."""
        save_samples(together(steps), self.runner.samples_path)
        contender = first_running(self.runner, self.model, self.backends).contender
        try:
            yield contender
        finally:
            contender.close()


def speech_texts(source: SpeechSource, data: Path | None, new_tokens: int) -> SpeechTexts:
    """Returns the texts that the source writes after a few prompts, at most `new_tokens` tokens each.

    `data` has features for the encoder; raises DataError if they are too few.
    """
    encoder = encoder_beside(source.model)
    if encoder is None or data is None:
        raise DataError(
            "The decoder needs what its encoder computes from audio.", "Pass a folder of WAV files.", [_DATA]
        )
    folder = text_folder(source.model)
    tokenizer = load_tokenizer(folder)
    tokens = SpeechTokens(folder, tokenizer)
    context = source.cache.max_context_tokens or tokens.settings.max_length
    cache = msgspec.structs.replace(source.cache, max_context_tokens=context)
    source.runner.folder.mkdir()
    place = source.runner.folder / "given"
    fed = _encoded(source, encoder, data, place)
    prompts = list(islice(_prompts(source, tokens, fed), _MAX_TEXTS))
    if len(prompts) < FEWEST_TEXTS:
        raise DataError(
            f"The audio makes {units.count(len(prompts), 'text')}; a search needs at least {FEWEST_TEXTS}.",
            f"Give at least {FEWEST_TEXTS} windows of audio, such as that many WAV files.",
            [_DATA],
        )
    begins = [row for _, row in prompts]
    size = len(begins[0])
    longest = new_tokens if context is None else max(1, min(new_tokens, context - size))
    settings = tokens.settings
    given = GivenInputs(
        str(place),
        tuple(at for at, _ in prompts),
        tokenizer.stop_ids,
        settings.suppress_tokens or (),
        settings.begin_suppress_tokens or (),
    )
    with source.running([source.step(begins[0], fed[0])]) as contender:
        made = run_generation(contender, cache, begins, size, source.runner.folder, given, max_tokens=longest)
    random = np.random.default_rng(_SEED).integers(0, tokens.start, (len(begins), longest)).tolist()
    # A text of a single token has no step with a cache after it.
    short = [len(row) < min(2, longest) for row in made.decoded.generated]
    ends = [
        other if is_short else row
        for is_short, row, other in zip(short, made.decoded.generated, random, strict=True)
    ]
    warning = (
        f"The model writes nothing after {sum(short)} of {len(short)} prompts; random tokens take the place of "
        "these texts."
    )
    rows = tuple((*begin, *end) for begin, end in zip(begins, ends, strict=True))
    return SpeechTexts(Texts(rows, warning if any(short) else ""), size, given, cache)


def _encoded(source: SpeechSource, encoder: Path, data: Path, folder: Path) -> list[Feeds]:
    """Writes the inputs that the source encoder computes for each window, and returns them."""
    arrays = {name: array[:MAX_WINDOWS] for name, array in read_arrays(data).items()}
    runner = replace(source.runner, samples_path=source.runner.folder / "features")
    save_samples(Samples(arrays, {name: array.ndim - 1 for name, array in arrays.items()}), runner.samples_path)
    contender = first_running(runner, encoder, source.backends).contender
    try:
        outputs = runner.outputs(contender, range(len(next(iter(arrays.values())))), 1)
    finally:
        contender.close()
    missing = next((name for name in source.cache.given if name not in outputs[0]), None)
    if missing is not None:
        raise ModelError(f"The encoder has no output '{missing}'.", "Use the encoder of the same model.")
    fed: list[Feeds] = [{name: each[name] for name in source.cache.given} for each in outputs]
    save_samples(together(fed), folder)
    return fed


def _prompts(
    source: SpeechSource, tokens: SpeechTokens, fed: Sequence[Feeds]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields windows with their prompts: the language of each and both tasks first, then other languages."""
    if not tokens.languages:
        yield from ((place, tuple(tokens.prompt(None, "transcribe"))) for place in range(len(fed)))
        return
    steps = [source.step([tokens.start], each) for each in fed]
    with source.running(steps) as contender:
        outputs = source.runner.outputs(contender, range(len(steps)), 1)
    scores = [each[source.cache.logits].reshape(-1) for each in outputs]
    heard = [max(tokens.languages, key=lambda one: float(row[tokens.languages[one]])) for row in scores]
    for task in TASKS:
        yield from ((place, tuple(tokens.prompt(each, task))) for place, each in enumerate(heard))
    for other in tokens.languages:
        for place, each in enumerate(heard):
            if other != each:
                yield place, tuple(tokens.prompt(other, "transcribe"))
