"""Text of speech: windows of audio through an encoder, and pieces of text while its decoder generates tokens."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.deployment import Cache
from edgeopt.bundle.runtime.generation import DecoderPorts, Generation, Sampler
from edgeopt.bundle.runtime.stream import Stream
from edgeopt.bundle.runtime.text_generation import TextGeneration
from edgeopt.errors import ModelError, UsageError
from edgeopt.speech.audio import samples_of
from edgeopt.speech.features import FeatureSettings, load_settings, log_mel
from edgeopt.speech.tokens import SpeechTokens
from edgeopt.text.stream import TextStream
from edgeopt.text.tokenizer import Tokenizer

_CUT_WITHIN_S = 5.0
_QUIET_S = 0.1
_HOP_S = 0.01
_UNLIMITED = 1 << 31


class SpeechPart(Protocol):
    """The session of an encoder or a decoder."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def run(self, feeds: Feeds, /) -> dict[str, Array]: ...


class SpeechModel:
    """A decoder with its encoder, the settings of its features, and its tokens."""

    def __init__(
        self, decoder: SpeechPart, encoder: SpeechPart, cache: Cache, tokenizer: Tokenizer, folder: Path
    ) -> None:
        """`folder`: that of the tokenizer; raises UsageError for a model that does not take audio."""
        if not cache.given or len(encoder.inputs) != 1:
            raise UsageError(
                "The model does not take audio: its encoder must have one input and feed the cross attention.",
                "Import it again with edgeopt import.",
            )
        self.features: FeatureSettings = load_settings(folder)
        self.tokens = SpeechTokens(folder, tokenizer)
        context = cache.max_context_tokens or self.tokens.settings.max_length
        cache = msgspec.structs.replace(cache, max_context_tokens=context)
        self._decoder, self._encoder, self._cache = decoder, encoder, cache
        self._stop_ids = tokenizer.stop_ids
        self._ports = DecoderPorts(cache, decoder.inputs, decoder.outputs)

    def encode(self, samples: Array) -> Feeds:
        """Returns the inputs of the decoder that are the same at every step, for one window of audio."""
        taken = self._encoder.inputs[0]
        features = log_mel(samples, self.features)[None].astype(taken.dtype)
        made = self._encoder.run({taken.name: features})
        missing = next((name for name in self._cache.given if name not in made), None)
        if missing is not None:
            raise ModelError(f"The encoder has no output '{missing}'.", "Use the encoder of the same model.")
        return {name: made[name] for name in self._cache.given}

    def language(self, given: Feeds) -> str | None:
        """Returns the most likely language of a window by one step; None if the model has English alone."""
        languages = self.tokens.languages
        if not languages:
            return None
        fed = self._ports.feeds(np.array([self.tokens.start]), 0)
        scores = self._stream(given).step(fed)[self._ports.logits].reshape(-1)
        return max(languages, key=lambda each: float(scores[languages[each]]))

    def generate(self, given: Feeds, prompt: list[int], max_tokens: int, sampler: Sampler) -> TextGeneration:
        """Returns the text of one window."""
        generation = Generation(self._stream(given), self._ports, prompt, max_tokens, self._stop_ids, sampler)
        return TextGeneration(generation, TextStream(self.tokens.text, prompt))

    def _stream(self, given: Feeds) -> Stream:
        ports = self._decoder.inputs, self._decoder.outputs
        return Stream(self._decoder.run, *ports, None, None, self._cache, given)


class Transcription(Iterator[str]):
    """Text of speech, piece by piece; one thread at a time may use it."""

    def __init__(
        self,
        model: SpeechModel,
        audio: str | Path | bytes | memoryview | Array,
        language: str | None,
        task: str,
        max_tokens: int | None,
        temperature: float,
        seed: int | None,
    ) -> None:
        """Reads the audio and checks the settings; the first piece computes the first window."""
        model.tokens.check(language, task)
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"It cannot generate {max_tokens} tokens.", "Give at least 1 as 'max_tokens'.")
        self._model, self._task, self._temperature, self._seed = model, task, temperature, seed
        self._sampler()  # checks the temperature
        rate_hz = model.features.sampling_rate
        samples = samples_of(audio, rate_hz)
        self.audio_s = len(samples) / rate_hz
        """Seconds of audio."""
        self.language = language
        """The language of the speech; None until it is detected, and for models of English alone."""
        self.ending = ""
        """The reason that there is no more text: `stop`, `context` (a window had more text than fits),
        `max_tokens` or `closed`; empty before."""
        self.prompt_tokens: list[int] = []
        """The token ids that each window begins with; empty before the first."""
        self.first_token_s: float | None = None
        """Seconds that the first window's encoder and the first token took; None before."""
        self._windows = windows(samples, model.features.window_samples, rate_hz)
        self._left = _UNLIMITED if max_tokens is None else max_tokens
        self._window: TextGeneration | None = None
        self._tokens: list[int] = []
        self._pieces: list[str] = []
        self._filled = False
        self._prompt_s = 0.0

    def __next__(self) -> str:
        while not self.ending:
            if piece := self.step():
                return piece
        raise StopIteration

    def step(self) -> str:
        """Generates one token; returns the text that became final, which may be empty."""
        if self.ending:
            return ""
        begin = time.perf_counter()
        window = self._window = self._window or self._begin_window()
        piece = window.step()
        if self.first_token_s is None:
            self._prompt_s += time.perf_counter() - begin
            self.first_token_s = self._prompt_s if window.tokens else None
        if window.ending:
            self._end_window(window)
        if not self._pieces:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
        return piece

    def close(self) -> None:
        """Ends the text and frees the cache."""
        if not self.ending:
            self.ending = "closed"
            if self._window is not None:
                self._window.close()
                self._end_window(self._window)

    @property
    def text(self) -> str:
        """Returns all pieces so far."""
        return "".join(self._pieces)

    @property
    def tokens(self) -> list[int]:
        """Returns the generated token ids so far."""
        return [*self._tokens, *(self._window.tokens if self._window is not None else ())]

    def _begin_window(self) -> TextGeneration:
        given = self._model.encode(self._windows[0])
        if self.language is None:
            self.language = self._model.language(given)
        self.prompt_tokens = self._model.tokens.prompt(self.language, self._task)
        return self._model.generate(given, self.prompt_tokens, self._left, self._sampler())

    def _end_window(self, window: TextGeneration) -> None:
        self._window, self._windows = None, self._windows[1:]
        self._tokens += window.tokens
        self._left -= len(window.tokens)
        self._filled |= window.ending == "context"
        if window.ending == "max_tokens":
            self.ending = "max_tokens"
        elif not self._windows and not self.ending:
            self.ending = "context" if self._filled else "stop"

    def _sampler(self) -> Sampler:
        settings = self._model.tokens.settings
        excluded = settings.suppress_tokens or (), settings.begin_suppress_tokens or ()
        return Sampler(self._temperature, 0, 1.0, self._seed, *excluded)


def windows(samples: Array, length: int, rate_hz: int) -> list[Array]:
    """Cuts audio into windows of at most `length` samples, at the quietest place near the end of each."""
    found = []
    quiet, hop = int(_QUIET_S * rate_hz), int(_HOP_S * rate_hz)
    while len(samples) > length:
        begin = max(0, length - int(_CUT_WITHIN_S * rate_hz))
        energies = (sliding_window_view(samples[begin:length], quiet)[::hop] ** 2).sum(axis=1)
        end = begin + int(energies.argmin()) * hop + quiet // 2
        found.append(samples[:end])
        samples = samples[end:]
    return [*found, samples]
