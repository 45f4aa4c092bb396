"""Generating tokens with a decoder that has a cache."""

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.stream import Steps
from edgeopt.errors import DataError, ModelError, UsageError

_MASK_RANK = 2


class PromptTooLongError(DataError):
    """A prompt with more tokens than the context of the model holds."""

    code = "prompt-too-long"


class Sampler:
    """A choice of the next token from the scores of all: the best one, or a draw from a seeded generator."""

    def __init__(
        self,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        excluded: Sequence[int] = (),
        excluded_first: Sequence[int] = (),
    ) -> None:
        """`excluded`: ids that are never chosen; `excluded_first`: others that the first choice excludes."""
        if not (math.isfinite(temperature) and temperature >= 0):
            raise UsageError(
                f"'temperature' cannot be {temperature}.", "Give 0 for the most likely token, or more."
            )
        if top_k < 0:
            raise UsageError(f"'top_k' cannot be {top_k}.", "Give 0 for all tokens, or at least 1.")
        if not 0 < top_p <= 1:
            raise UsageError(f"'top_p' cannot be {top_p}.", "Give a probability above 0, and at most 1.")
        self._temperature = temperature
        self._top_k = top_k
        self._top_p = top_p
        self._random = np.random.default_rng(seed)
        self._excluded = list(excluded)
        self._excluded_now = [*excluded, *excluded_first]

    def choose(self, scores: Array) -> int:
        """Returns the id of the next token; raises ModelError where a score is not a number."""
        if self._excluded_now:
            scores = scores.copy()
            scores[[each for each in self._excluded_now if 0 <= each < len(scores)]] = -np.inf
            self._excluded_now = self._excluded
        best = int(scores.argmax())
        # argmax finds the first NaN; minus infinity excludes a token.
        if not np.isfinite(scores[best]):
            raise ModelError(
                "The model returned logits that are not finite.",
                "Run it in float32: a lower precision may overflow.",
            )
        if not self._temperature:
            return best
        exact = scores.astype(np.float64)
        ids = None
        if 0 < self._top_k < len(exact):
            ids = np.argpartition(-exact, self._top_k - 1)[: self._top_k]
            exact = exact[ids]
        chances = np.exp((exact - exact.max()) / self._temperature)
        if self._top_p < 1:
            order = np.argsort(-chances, kind="stable")
            sums = np.cumsum(chances[order])
            order = order[: int(np.searchsorted(sums, self._top_p * sums[-1])) + 1]
            ids, chances = order if ids is None else ids[order], chances[order]
        sums = np.cumsum(chances)
        place = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return place if ids is None else int(ids[place])


class Generation(Iterator[int]):
    """Generated token ids, one by one; one thread at a time may use it."""

    def __init__(
        self,
        stream: Steps,
        ports: "DecoderPorts",
        ids: Sequence[int] | Array,
        max_tokens: int,
        stop: Sequence[int],
        sampler: Sampler,
        max_step_tokens: int | None = None,
    ) -> None:
        """Checks the prompt; the first token computes it, with at most `max_step_tokens` tokens in a run."""
        self.ending = ""
        """The reason that there are no more tokens: `stop`, `max_tokens`, `context` or `closed`; empty before."""
        self.tokens: list[int] = []
        """The generated token ids so far."""
        self.first_token_s: float | None = None
        """Seconds that computing the prompt and the first token took; None before."""
        if max_tokens < 1:
            raise UsageError(f"It cannot generate {max_tokens} tokens.", "Give at least 1 as 'max_tokens'.")
        if max_step_tokens is not None and max_step_tokens < 1:
            raise UsageError(
                f"A run cannot take {max_step_tokens} tokens.", "Give at least 1 as 'max_step_tokens'."
            )
        self._ports = ports
        self._max_step_tokens = ports.tokens_in_a_step or max_step_tokens
        self._pending = _prompt(ids)
        self._ports.check_ids(self._pending)
        self.prompt_tokens: list[int] = self._pending.tolist()
        """The token ids of the prompt."""
        self._max_context = ports.max_context_tokens
        if self._max_context is not None and len(self._pending) > self._max_context:
            raise PromptTooLongError(
                f"The prompt has {len(self._pending)} tokens; the model takes {self._max_context}.",
                "Shorten the prompt.",
            )
        self._stream: Steps | None = stream
        self._cached = 0
        self._left = max_tokens
        self._stop = frozenset(int(each) for each in stop)
        self._sampler = sampler
        self._prompt_s = 0.0
        """Seconds that the runs of the prompt but for the last one took."""

    def prefill(self) -> bool:
        """Computes a part of the prompt; returns False, without a run, once only the last part is left."""
        length = self._max_step_tokens
        if self._stream is None or length is None or len(self._pending) <= length:
            return False
        begin = time.perf_counter()
        self._run(self._stream, length)
        self._prompt_s += time.perf_counter() - begin
        return True

    def __next__(self) -> int:
        if self._stream is None:
            raise StopIteration
        if not self._left:
            self._end("max_tokens")
        elif self._max_context is not None and self._cached + len(self._pending) > self._max_context:
            self._end("context")
        if self._stream is None:
            raise StopIteration
        while self.prefill():
            pass
        begin = time.perf_counter()
        logits = self._run(self._stream, len(self._pending))
        token = self._sampler.choose(logits.reshape(-1, logits.shape[-1])[-1])
        if token in self._stop:
            self._end("stop")
            raise StopIteration
        if not self.tokens:
            self.first_token_s = self._prompt_s + time.perf_counter() - begin
        self.tokens.append(token)
        self._pending = np.array([token])
        self._left -= 1
        return token

    def close(self) -> None:
        """Ends the generation and frees its cache."""
        if self._stream is not None:
            self._end("closed")

    def _end(self, ending: str) -> None:
        self._stream, self.ending = None, ending

    def _run(self, stream: Steps, count: int) -> Array:
        """Runs the next `count` tokens that are not in the cache yet; returns the logits."""
        fed, rest = self._pending[:count], self._pending[count:]
        logits: Array = stream.step(self._ports.feeds(fed, self._cached))[self._ports.logits]
        # Some runtimes return values of another token for an id that the embedding does not have.
        self._ports.check_ids(fed, logits.shape[-1])
        self._pending, self._cached = rest, self._cached + len(fed)
        return logits


class DecoderPorts:
    """The declared inputs and outputs of a decoder, and the arrays to feed them with."""

    def __init__(self, cache: Cache, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        fed = (cache.tokens, cache.mask, cache.positions)
        self._tokens, self._mask, self._positions = (_port(inputs, name, "input") for name in fed)
        known = (*fed, *cache.pairs, *cache.given)
        other = next((each.name for each in inputs if each.name not in known), None)
        if other is not None:
            raise UsageError(
                f"The model also takes '{other}', which [cache] does not declare, so it cannot generate alone.",
                "Run its steps yourself: stream = session.stream(), then stream.step(feeds).",
            )
        for each in (self._tokens, self._mask, self._positions):
            if each is not None and each.rank_known and len(each.shape) != _MASK_RANK:
                raise UsageError(
                    f"The input '{each.name}' has {len(each.shape)} axes; generating feeds a batch of rows.",
                    "Run its steps yourself: stream = session.stream(), then stream.step(feeds).",
                )
        self.max_context_tokens = cache.max_context_tokens
        self.logits = cache.logits
        logits = _port(outputs, cache.logits, "output")
        size = logits.shape[-1] if logits is not None and logits.shape else None
        self.vocabulary = size if isinstance(size, int) else None
        """Number of tokens that the model knows; None if its output has an open size."""
        length = self._tokens.shape[-1] if self._tokens is not None and self._tokens.shape else None
        self.tokens_in_a_step = length if isinstance(length, int) else None
        """The number of tokens that one step takes; None if it takes any number."""
        if self.tokens_in_a_step not in (None, 1):
            raise UsageError(
                f"The model takes exactly {length} tokens in a step, so it cannot generate one by one.",
                "Export it with an open length of its input ids.",
            )

    def check_ids(self, ids: Array, vocabulary: int | None = None) -> None:
        """Raises DataError for an id outside of the vocabulary, as far as its size is known."""
        size = vocabulary or self.vocabulary
        wrong = ids[(ids < 0) | (ids >= size)] if size is not None else ids[ids < 0]
        if wrong.size:
            known = f"the vocabulary has {size} tokens" if size is not None else "ids begin at 0"
            raise DataError(
                f"There is no token {int(wrong[0])}: {known}.", "Use the tokenizer that belongs to the model."
            )

    def feeds(self, ids: Array, cached: int) -> Feeds:
        """Returns the feeds of one step: `ids`, a row or several, after as many tokens as are in the cache."""
        rows = np.atleast_2d(ids)
        batch, count = rows.shape
        length = cached + count
        values = (
            (self._tokens, rows),
            (self._mask, np.ones((batch, length))),
            (self._positions, np.tile(np.arange(cached, length), (batch, 1))),
        )
        return {info.name: array.astype(info.dtype) for info, array in values if info is not None}


def _port(ports: Sequence[TensorInfo], name: str, kind: str) -> TensorInfo | None:
    found = next((each for each in ports if each.name == name), None)
    if name and found is None:
        raise UsageError(
            f"[cache] declares the {kind} '{name}', which the model does not have.",
            f"Its {kind}s are: {', '.join(each.name for each in ports)}.",
        )
    return found


def _prompt(ids: Sequence[int] | Array) -> Array:
    found = np.asarray(ids)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise DataError(
            "A prompt is a list of token ids, at least one.", "Give it as integers, such as [1, 15, 7]."
        )
    return found.astype(np.int64)
