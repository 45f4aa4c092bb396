"""The two workloads of a decoder as samples: prefill (a prompt, empty cache) and decode (a token, filled cache).

The samples of one search, in order: those that are timed; those that check candidates; those that prove. They are
judged by the logits after each of their tokens. Every other one is a whole text with an empty cache; the others
are the end of a text, with the cache that the source model computed for its beginning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.cache import found_cache, is_cross_attention
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.generation import DecoderPorts
from edgeopt.data.judging.goals import KL
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import Split
from edgeopt.errors import OptionReference, UsageError
from edgeopt.graph.import_proof import InputLimits
from edgeopt.measure.messages import Described, GivenInputs
from edgeopt.measure.trial import max_rotated
from edgeopt.pipeline.baseline import first_running
from edgeopt.pipeline.builders.messages import Inspected
from edgeopt.pipeline.decoder.generation import PROMPTS, GenerationTask
from edgeopt.pipeline.decoder.speech import SpeechSource, SpeechTexts, speech_texts
from edgeopt.pipeline.decoder.texts import Texts, read_texts
from edgeopt.pipeline.objectives import FIRST_TOKEN, LATENCY, OF_DECODERS, THROUGHPUT, TOKENS_PER_SECOND
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.shapes.sized import together
from edgeopt.profiles import TargetProfile
from edgeopt.text.tokenizer import text_folder

_MAX_TIMED, _MAX_CHECKING, _MAX_PROVING = 4, 8, 16
GOLDEN_STEPS = 2
"""Samples of a single token at the end of those that prove: the golden samples of the bundle, which are small."""
_SPEECH_PROMPTS = 6
"""Prompts of a speech model to generate after, one at a time."""
_MAX_LOGITS_BYTES = 400_000_000
_FLOAT_BYTES = 4
_PROMPT, _NEW, _SHAPE, _OBJECTIVE = (
    OptionReference(name) for name in ("prompt_tokens", "new_tokens", "shape", "objective")
)


@dataclass(frozen=True, slots=True)
class DecoderData:
    """Samples of a decoder, and how many tokens they have."""

    samples: Samples
    split: Split
    prompt_tokens: int
    new_tokens: int
    prompts: tuple[tuple[int, ...], ...]
    """Texts to generate from, as token ids: first those that neither time nor check candidates."""
    warning: str = ""
    generation: GenerationTask | None = None
    """Generation to prove; None until the source model has run it."""
    given: GivenInputs | None = None
    """Inputs that the encoder of a speech model computed for the texts in `prompts`."""
    cache: Cache | None = None
    """Cache of a speech model with its longest text; None for that of the model."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.new_tokens


class DecoderModel(NamedTuple):
    """Ports of a decoder that takes any number of tokens, with an empty cache or a filled one."""

    cache: Cache
    ports: DecoderPorts
    states: tuple[TensorInfo, ...]
    vocabulary: int

    def feeds(
        self, ids: Sequence[int], states: Mapping[str, Array] | None = None, cached: int = 0
    ) -> dict[str, Array]:
        """Returns the feeds for tokens after the first `cached` tokens of the sequence that has these states."""
        found = {**self.ports.feeds(np.asarray(ids), cached), **self.empty()}
        for info in self.states:
            if states is not None and cached:
                whole = states[self.cache.pairs[info.name]]
                found[info.name] = np.take(whole, range(cached), axis=self.cache.axis)
        return found

    def empty(self) -> dict[str, Array]:
        """Returns caches without a token."""
        return {info.name: np.zeros(self._shape(info), np.dtype(info.dtype)) for info in self.states}

    def _shape(self, info: TensorInfo) -> list[int]:
        axis = self.cache.axis
        return [0 if k == axis else size if isinstance(size, int) else 1 for k, size in enumerate(info.shape)]


def decoder_in(
    facts: Inspected | Described,
    limits: InputLimits,
    encoder: Path | None = None,
    declared: Cache | None = None,
) -> DecoderModel | None:
    """Returns the model's ports if it is a decoder whose texts can be searched by; None for any other model.

    `encoder`: the model that computes the inputs of a speech model's decoder, if there is one. `declared`: the
    cache by the bundle's deployment profile.
    """
    try:
        cache = declared or found_cache(facts.inputs, facts.outputs, limits)
        ports = DecoderPorts(cache, facts.inputs, facts.outputs)
    except UsageError:
        return None
    states = tuple(info for info in facts.inputs if info.name in cache.pairs)
    size = next(info.shape[-1] for info in facts.outputs if info.name == cache.logits)
    others = (d for info in states for k, d in enumerate(info.shape) if k not in (0, cache.axis))
    is_known = isinstance(size, int) and all(isinstance(d, int) for d in others)
    if not is_known or ports.tokens_in_a_step is not None or any(map(is_cross_attention, cache.pairs)):
        return None
    if cache.given and encoder is None:
        return None
    return DecoderModel(cache, ports, states, int(size or 0))


def settings_for(settings: OptimizeRequest, model: DecoderModel | None) -> OptimizeRequest:
    """Returns the settings with the default goal of a decoder; raises UsageError for an objective of others."""
    objective = settings.objective
    if model is None:
        if objective not in OF_DECODERS:
            return settings
        raise UsageError(
            f"The objective '{objective}' needs a decoder with a cache.",
            "The model has no inputs 'past_key_values.N.key' with outputs 'present.N.key', or takes other inputs.",
            [_OBJECTIVE],
        )
    if objective == THROUGHPUT:
        raise UsageError(
            "A decoder with a cache runs one text at a time, so its throughput cannot be the objective.",
            f"Choose {TOKENS_PER_SECOND} or {FIRST_TOKEN}.",
            [_OBJECTIVE],
        )
    metric = KL if settings.metric is None and settings.floor is None else settings.metric
    objective = TOKENS_PER_SECOND if objective == LATENCY else objective
    return msgspec.structs.replace(settings, objective=objective, metric=metric)


def decoder_data(
    settings: OptimizeRequest, model: DecoderModel, profile: TargetProfile, runner: TrialRunner
) -> DecoderData:
    """Makes samples whose caches the source model computes; raises UsageError for options that do not apply."""
    if settings.shape:
        raise UsageError(
            f"{_SHAPE} does not apply to a decoder with a cache.",
            f"Give {_PROMPT} and {_NEW}.",
            [_SHAPE, _PROMPT, _NEW],
        )
    texts, prompt, speech = _texts(settings, model, profile, runner)
    length = max(map(len, texts.rows))
    timed, checking, proving = _divided(texts, length * model.vocabulary * _FLOAT_BYTES)
    parts = [texts.rows[k] for k in range(timed + checking + proving)]
    given = [{}] * len(texts.rows) if speech is None else speech.feeds()
    states = _source_states(settings, model, profile, runner, list(zip(parts, given, strict=False)))
    own = list(zip(parts, states, given, strict=False))

    def judged(place: int, row: tuple[int, ...], held: Feeds, fixed: Feeds) -> dict[str, Array]:
        return {**(model.feeds(row) if place % 2 == 0 else model.feeds(row[prompt:], held, prompt)), **fixed}

    def step(row: tuple[int, ...], held: Feeds, fixed: Feeds, at: int) -> dict[str, Array]:
        return {**model.feeds(row[at : at + 1], held, at), **fixed}

    count = max_rotated(sum(array.nbytes for array in given[0].values()))
    timed_own = [own[k % timed] for k in range(count)]
    if settings.objective == FIRST_TOKEN:
        runs = [{**model.feeds(row[:prompt]), **fixed} for row, _, fixed in timed_own]
    else:
        places = [prompt + k * (len(row) - prompt) // count for k, (row, _, _) in enumerate(timed_own)]
        runs = [step(*each, at) for each, at in zip(timed_own, places, strict=True)]
    runs += [judged(k, *each) for k, each in enumerate(own[timed:])]
    runs += [step(*each, prompt) for each in own[-GOLDEN_STEPS:]]
    split = Split(count, count, checking, count + checking, proving + GOLDEN_STEPS)
    order = [(timed + checking + k) % len(texts.rows) for k in range(len(texts.rows))][:PROMPTS]
    prompts = tuple(texts.rows[k] for k in order)
    data = DecoderData(together(runs), split, prompt, length - prompt, prompts, texts.warning)
    if speech is None:
        return data
    order = order[:_SPEECH_PROMPTS]
    given_inputs = msgspec.structs.replace(speech.given, places=tuple(speech.given.places[k] for k in order))
    return replace(data, prompts=prompts[:_SPEECH_PROMPTS], given=given_inputs, cache=speech.cache)


def _texts(
    settings: OptimizeRequest, model: DecoderModel, profile: TargetProfile, runner: TrialRunner
) -> tuple[Texts, int, SpeechTexts | None]:
    """Returns the texts, the tokens of their prompts, and what belongs to them if the model takes audio."""
    if model.cache.given:
        place = runner.folder / "speech"
        own = replace(runner, folder=place, samples_path=place / "samples")
        order = profile.backends.order
        source = SpeechSource(settings.model, model.cache, model.ports, model.empty(), order, own)
        speech = speech_texts(source, settings.data, settings.new_tokens)
        return speech.texts, speech.prompt_tokens, speech
    prompt, new = settings.prompt_tokens, settings.new_tokens
    check_context(model.cache, prompt, new)
    folder = text_folder(settings.model)
    cache = model.cache
    texts = read_texts(folder, settings.data, cache.tokens, prompt + new, model.vocabulary, cache.pairs)
    return texts, prompt, None


def check_context(cache: Cache, prompt: int, new: int) -> None:
    """Raises UsageError for more tokens than the context of the model, if that is known."""
    context = cache.max_context_tokens
    if context is not None and prompt + new > context:
        raise UsageError(
            f"{prompt} and {new} tokens are more than the context of the model, {context} tokens.",
            f"Give smaller {_PROMPT} or {_NEW}.",
            [_PROMPT, _NEW],
        )


def _divided(texts: Texts, logits_bytes: int) -> tuple[int, int, int]:
    """Returns the numbers of texts that are timed, that check, and that prove."""
    count = len(texts.rows)
    share = max(2, math.ceil(_MAX_LOGITS_BYTES / logits_bytes))
    timed = min(_MAX_TIMED, max(1, count // 8))
    checking = min(_MAX_CHECKING, share, max(1, (count - timed) // 3))
    return timed, checking, min(_MAX_PROVING, share, count - timed - checking)


def _source_states(
    settings: OptimizeRequest,
    model: DecoderModel,
    profile: TargetProfile,
    runner: TrialRunner,
    rows: Sequence[tuple[tuple[int, ...], Feeds]],
) -> list[dict[str, Array]]:
    """Returns the keys and values that the source model computes for whole texts, by output.

    `rows`: the texts, each with its inputs that are the same at every step.
    """
    folder = runner.folder / "texts"
    folder.mkdir()
    samples = together([{**model.feeds(row), **fixed} for row, fixed in rows])
    save_samples(samples, folder / "samples")
    own = replace(runner, folder=folder, samples_path=folder / "samples")
    source = first_running(own, settings.model, profile.backends.order).contender
    found: list[dict[str, Array]] = []
    try:
        for place in range(len(rows)):  # one by one: the logits of all texts take hundreds of megabytes
            (outputs,) = own.outputs(source, range(place, place + 1))
            found.append({name: outputs[name] for name in model.cache.pairs.values()})
    finally:
        source.close()
    return found
