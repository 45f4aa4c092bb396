"""Decoding in a trial: texts with and without the cache, in chunks, behind padding; and greedy generation."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.generation import DecoderPorts, Generation, Sampler
from edgeopt.bundle.runtime.stream import Steps, decoder_steps
from edgeopt.data.samples import open_samples, write_archive
from edgeopt.errors import ModelError
from edgeopt.measure.messages import Decode, Decoded, Generate, GivenInputs
from edgeopt.measure.trials.openers import Loads

FULL, CACHED, CHUNKED, PADDED = "full", "cached", "chunked", "padded"
FORMS = (CACHED, CHUNKED, PADDED)
"""Ways to run a text that must give the logits of one full run."""
FORM_TEXTS = 2
"""Number of texts that are run in each form; after the others, tokens are only generated."""
TIMED_TOKENS = 32
"""Maximum number of tokens that are generated after one prompt alone, to time them."""
FEWEST_TOKENS = 32
"""Tokens that are generated after each prompt even if the time is over."""
_ALONE = 6
"""Number of prompts of a model that takes no batch."""
_LARGEST_LOGITS_BYTES = 256 << 20
_CHUNKS = 4
_PADDING = 3


def decode(session: Loads, request: Decode) -> Decoded:
    """Saves the logits after each token of the texts' ends as `TEXT/FORM`, and returns what was generated."""
    until_s = None if request.limit_s is None else time.monotonic() + request.limit_s
    arrays: dict[str, Array] = {}
    prompts = [text[: request.prompt_tokens] for text in request.texts]
    first_ms, token_ms = [], []
    decoders = [_Decoder(session, request.cache, given) for given in _given(request)]
    for number, (decoder, text) in enumerate(zip(decoders, request.texts[:FORM_TEXTS], strict=False)):
        prompt, end = text[: request.prompt_tokens], text[request.prompt_tokens :]
        for form, logits in decoder.forms(prompt, end) if end else ():
            arrays[f"{number}/{form}"] = logits
        _, laps_ms = decoder.greedy([prompt], min(request.greedy_tokens, TIMED_TOKENS))
        first_ms.append(laps_ms[0])
        token_ms += laps_ms[1:] or laps_ms
    own = list(zip(decoders, prompts, strict=True))
    if request.given is not None:
        generated = [decoder.transcript(each, request.greedy_tokens, request.given) for decoder, each in own]
    else:
        generated = _together(decoders[0], prompts, request.greedy_tokens, until_s) or [
            decoder.greedy([each], request.greedy_tokens, until_s=share_s)[0][0]
            for (decoder, each), share_s in zip(own, _shares(until_s, len(own[:_ALONE])), strict=False)
        ]
    write_archive(Path(request.out_path), arrays)
    return Decoded(tuple(generated), float(np.median(first_ms)), float(np.median(token_ms)))


def generate(session: Loads, request: Generate) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns for each answer the milliseconds of its first token, and the mean ones of each further token."""
    decoder = _Decoder(session, request.cache, {})
    first_ms, token_ms = list[float](), list[float]()
    end_s = time.perf_counter() + request.slice_ms / 1e3
    while not first_ms or time.perf_counter() < end_s:
        prompt = request.prompts[(request.first + len(first_ms)) % len(request.prompts)]
        _, (first, *others) = decoder.greedy([prompt], request.new_tokens, in_one_run=True)
        first_ms.append(first)
        token_ms.append(sum(others) / len(others))
    return tuple(first_ms), tuple(token_ms)


def _shares(until_s: float | None, count: int) -> Iterator[float | None]:
    """Yields the end of the time of each of several prompts, which share what is left when the first begins."""
    for left in range(count, 0, -1):
        now_s = time.monotonic()
        yield None if until_s is None else now_s + (until_s - now_s) / left


def _together(
    decoder: "_Decoder", prompts: Sequence[Sequence[int]], count: int, until_s: float | None
) -> list[tuple[int, ...]]:
    """Returns what is generated after the prompts in one batch; nothing if the model or its runtime takes none.

    OpenVINO runs grouped attention (GroupQueryAttention) for one sequence only, though the graph leaves the batch
    open.
    """
    if not decoder.takes_batches:
        return []
    try:
        return decoder.greedy(prompts, count, until_s=until_s)[0]
    except ModelError:
        return []


def _given(request: Decode) -> list[Feeds]:
    """Returns the inputs of each text that are the same at every step."""
    if request.given is None:
        return [{}] * len(request.texts)
    samples = open_samples(Path(request.given.path))
    found = {place: samples.feeds(place) for place in set(request.given.places)}
    return [found[place] for place in request.given.places]


class _Decoder:
    """Sequences of steps of one session, each with a cache of its own."""

    def __init__(self, session: Loads, cache: Cache, given: Feeds) -> None:
        self._session, self._cache, self._given = session, cache, given
        self._ports = DecoderPorts(cache, session.inputs, session.outputs)
        states = [*cache.pairs, cache.tokens, cache.mask, cache.positions]
        first = (info.shape[:1] for info in session.inputs if info.name in states)
        self.takes_batches = not any(isinstance(size, int) for sizes in first for size in sizes)
        """Whether the model runs several sequences at once."""

    def _stream(self) -> Steps:
        return decoder_steps(self._session, self._cache, self._given)

    def _begin(self) -> Callable[[Feeds], Array]:
        """Returns the function that runs the next step of a new sequence, and returns its logits by token."""
        stream = self._stream()

        def step(feeds: Feeds) -> Array:
            logits = stream.step(feeds)[self._cache.logits]
            return np.array(logits.reshape(-1, logits.shape[-1]))  # a runtime may use the buffer again

        return step

    def forms(self, prompt: Sequence[int], end: Sequence[int]) -> list[tuple[str, Array]]:
        """Returns the logits after each token of the end, by form."""
        text, count = [*prompt, *end], len(end)
        one_by_one = [list(prompt), *([token] for token in end)]
        middle, size = max(1, len(prompt) // 2), max(1, -(-count // _CHUNKS))
        parts = [list(prompt[:middle]), list(prompt[middle:])]
        parts += [list(end[k : k + size]) for k in range(0, count, size)]
        chunks = [part for part in parts if part]
        found = [
            (FULL, self._full(text, count)),
            (CACHED, self._run(one_by_one, count)),
            (CHUNKED, self._run(chunks, count)),
        ]
        if self._cache.mask and self._cache.positions:
            found.append((PADDED, self._run(chunks, count, padding=_PADDING)))
        return found

    def _full(self, text: Sequence[int], count: int) -> Array:
        """Returns the logits of the last tokens from one run without a stream, whose faults it must not share."""
        axis, states = self._cache.axis, {}
        for info in self._session.inputs:
            if info.name in self._cache.pairs:
                sizes = enumerate(info.shape)
                shape = [0 if k == axis else size if isinstance(size, int) else 1 for k, size in sizes]
                states[info.name] = np.zeros(shape, np.dtype(info.dtype))
        logits = self._session.run({**self._feeds(text, 0), **self._given, **states})[self._cache.logits]
        return np.array(logits.reshape(-1, logits.shape[-1])[-count:])

    def _run(self, chunks: Sequence[Sequence[int]], count: int, padding: int = 0) -> Array:
        """Returns the logits of the last tokens; `padding` tokens that the mask hides come before the first."""
        step, cached, logits = self._begin(), 0, []
        for chunk in chunks:
            logits.append(step(self._padded(chunk, cached, padding) if padding else self._feeds(chunk, cached)))
            cached += len(chunk)
        return np.concatenate(logits)[-count:]

    def _feeds(self, ids: Sequence[int], cached: int) -> Feeds:
        return self._ports.feeds(np.asarray(ids), cached)

    def _padded(self, ids: Sequence[int], cached: int, padding: int) -> Feeds:
        is_first = not cached
        hidden = [0] * padding if is_first else []
        feeds = dict(self._feeds([*hidden, *ids], 0 if is_first else cached + padding))
        mask, positions = (np.array(feeds[name]) for name in (self._cache.mask, self._cache.positions))
        mask[:, :padding] = 0
        feeds[self._cache.mask] = mask
        feeds[self._cache.positions] = np.maximum(positions - padding, 0)
        return feeds

    def greedy(
        self,
        prompts: Sequence[Sequence[int]],
        count: int,
        *,
        in_one_run: bool = False,
        until_s: float | None = None,
    ) -> tuple[list[tuple[int, ...]], list[float]]:
        """Returns the most likely tokens after each prompt of a batch, and the milliseconds of each step.

        Prompts with many logits run token by token, which no step includes, unless they must run in one step.
        After `until_s` on the monotonic clock, it ends once there are `FEWEST_TOKENS`.
        """
        cache, stream = self._cache, self._stream()
        ids = np.asarray(prompts)
        known, tokens, laps_ms = 0, list[Array](), list[float]()
        if not in_one_run and ids.size * (self._ports.vocabulary or 0) * 4 > _LARGEST_LOGITS_BYTES:
            for column in range(ids.shape[1] - 1):
                stream.step(self._ports.feeds(ids[:, column : column + 1], column))
            ids, known = ids[:, -1:], ids.shape[1] - 1
        while len(tokens) < count:
            if until_s is not None and len(tokens) >= FEWEST_TOKENS and time.monotonic() >= until_s:
                break
            begin = time.perf_counter()
            logits = stream.step(self._ports.feeds(ids, known))[cache.logits]
            ids, known = logits[:, -1:].argmax(-1), known + ids.shape[1]
            laps_ms.append((time.perf_counter() - begin) * 1e3)
            tokens.append(ids[:, 0])
        return [tuple(row) for row in np.stack(tokens, 1).tolist()], laps_ms

    def transcript(self, prompt: Sequence[int], count: int, given: GivenInputs) -> tuple[int, ...]:
        """Returns the most likely tokens after a prompt, up to the end of the text."""
        sampler = Sampler(excluded=given.excluded, excluded_first=given.excluded_first)
        return tuple(Generation(self._stream(), self._ports, prompt, count, given.stop, sampler))
