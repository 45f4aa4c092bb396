"""Runs of an imported language model through its cache: whole, token by token, in chunks, and greedy decoding."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array, Backend, Feeds, Options, Session, TensorInfo
from edgeopt.bundle.cache import found_cache, is_cross_attention

STEPS = 32
"""Number of tokens that run one by one at the end of a text longer than twice as many."""
WAYS: tuple[tuple[str, Callable[[int], tuple[int, ...]]], ...] = (
    ("whole", lambda count: (count,)),
    (
        "token by token",
        lambda count: (1,) * count if count <= 2 * STEPS else (count - STEPS, *[1] * STEPS),
    ),
    ("two chunks", lambda count: (count,) if count == 1 else (count // 2, count - count // 2)),
)
"""Name of each way to run a text, and the number of tokens in each of its steps."""
SAMPLES_BYTES = 256 << 20


class TextSession:
    """A session whose text goes through the cache in steps; the cache is empty at first.

    `encoder` computes what the cross attention reads, from the other inputs of a text.
    """

    def __init__(self, session: Session, encoder: Session | None = None) -> None:
        self.session, self.encoder = session, encoder
        self.inputs, self.outputs, self.placement = session.inputs, session.outputs, session.placement
        self.cache = found_cache(session.inputs, session.outputs)
        self.empty = {info.name: info for info in session.inputs if info.name in self.cache.pairs}
        self.given = tuple(
            name
            for info in session.inputs
            if is_cross_attention(name := info.name) and name not in self.cache.pairs
        )

    def run(self, feeds: Feeds) -> dict[str, Array]:
        """Returns the logits of each way; those of padding are 0."""
        text, kept = self._encoded(feeds), _mask(feeds).astype(bool)[..., None]
        return {
            _name(way): np.where(
                kept, np.concatenate([each[0] for each in self.steps(text, split(_length(text)))], 1), 0
            )
            for way, split in WAYS
        }

    def steps(self, text: Feeds, counts: tuple[int, ...]) -> list[tuple[Array, dict[str, Array]]]:
        """Returns logits and inputs of each step."""
        text = self._encoded(text)
        state = {name: self._empty(info, len(text["input_ids"])) for name, info in self.empty.items()}
        made, begin = [], 0
        for count in counts:
            feeds = self._feeds(text, begin, begin + count) | state
            found = self.session.run(feeds)
            made.append((found[self.cache.logits], feeds))
            state = {name: found[present] for name, present in self.cache.pairs.items()}
            begin += count
        return made

    def greedy(self, prompt: Feeds, count: int) -> Array:
        """Returns the likeliest tokens after a prompt without padding, each fed back."""
        text, ids = self._encoded(prompt), prompt["input_ids"]
        step = begin = _length(prompt)
        state = {name: self._empty(info, len(ids)) for name, info in self.empty.items()}
        for _ in range(count):
            text = {**text, "input_ids": ids, "attention_mask": np.ones_like(ids)}
            found = self.session.run(self._feeds(text, ids.shape[1] - step, ids.shape[1]) | state)
            state, step = {name: found[present] for name, present in self.cache.pairs.items()}, 1
            ids = np.concatenate([ids, found[self.cache.logits][:, -1:].argmax(-1).astype(ids.dtype)], 1)
        return ids[:, begin:]

    def close(self) -> None:
        self.session.close()
        if self.encoder is not None:
            self.encoder.close()

    def _encoded(self, text: Feeds) -> Feeds:
        """Returns the text with the outputs of the encoder."""
        if self.encoder is None or all(name in text for name in self.given):
            return text
        return {**text, **self.encoder.run({info.name: text[info.name] for info in self.encoder.inputs})}

    def _feeds(self, text: Feeds, begin: int, end: int) -> dict[str, Array]:
        mask = _mask(text)[:, :end]
        found = {self.cache.tokens: text["input_ids"][:, begin:end], **{name: text[name] for name in self.given}}
        if self.cache.mask:
            found[self.cache.mask] = mask
        if self.cache.positions:
            found[self.cache.positions] = np.maximum(mask.cumsum(1) - 1, 0)[:, begin:]
        return {name: np.ascontiguousarray(array) for name, array in found.items()}

    def _empty(self, info: TensorInfo, batch: int) -> Array:
        sizes = [0 if axis == self.cache.axis else size for axis, size in enumerate(info.shape)]
        return np.zeros([batch, *(size for size in sizes[1:] if isinstance(size, int))], info.dtype)


def _name(way: str) -> str:
    return f"logits, {way}"


def _length(text: Feeds) -> int:
    return int(text["input_ids"].shape[1])


def _mask(text: Feeds) -> Array:
    return text["attention_mask"] if "attention_mask" in text else np.ones_like(text["input_ids"])


def decoding(backend: Backend, encoder: Path | None = None) -> Backend:
    """Returns the backend with sessions that run texts through the cache of a model, after its encoder if any."""

    def load(
        path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
    ) -> TextSession:
        session = backend.load(path, options, strict=strict, custom_ops=custom_ops)
        return TextSession(session, None if encoder is None else backend.load(encoder, {}))

    return replace(backend, load=load)


def reference_of(texts: list[dict[str, Array]], original: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """Returns the original's logits for each way to run a text; those of padding are 0."""
    found = []
    for text, one in zip(texts, original, strict=True):
        logits = np.where(_mask(text).astype(bool)[..., None], one["logits"], 0)
        found.append({_name(way): logits for way, _ in WAYS})
    return found


def _open(path: Path, backend: Backend, encoder: Path | None) -> TextSession:
    return TextSession(backend.load(path, {}), None if encoder is None else backend.load(encoder, {}))


def greedy_note(
    path: Path, text: Mapping[str, Array], count: int, backend: Backend, encoder: Path | None = None
) -> str:
    """Returns a sentence on the tokens that model and original generate after the same prompt."""
    ids = text["input_ids"]
    decoder = _open(path, backend, encoder)
    try:
        got = decoder.greedy({**text, "input_ids": ids[:, :-count]}, count)
    finally:
        decoder.close()
    equal = (got == ids[:, -count:])[0]
    if equal.all():
        return f"Greedy decoding gives the same {count} tokens as the original without its cache."
    return (
        f"Greedy decoding gives another token than the original after {int(equal.argmin())} of {count}, although "
        "the logits agree: there rounding decides between two tokens."
    )


def step_samples(
    path: Path, texts: list[dict[str, Array]], backend: Backend, encoder: Path | None = None
) -> list[dict[str, Array]]:
    """Returns the inputs of the second half of each text, whose first half is in the cache."""
    decoder = _open(path, backend, encoder)
    found: list[dict[str, Array]] = []
    try:
        for text in texts:
            count = _length(text)
            *_, (_, feeds) = decoder.steps(text, (count // 2, count - count // 2) if count > 1 else (count,))
            found.append(feeds)
            if sum(each.nbytes for each in feeds.values()) * (len(found) + 1) > SAMPLES_BYTES:
                break
    finally:
        decoder.close()
    return found
