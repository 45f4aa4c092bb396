"""Keys and values of a decoder in buffers that each step continues in place, as grouped attention allows."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo, closed
from edgeopt.errors import ModelError, UsageError, error_text

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_FIRST_TOKENS = 256
"""Tokens of the first buffers; they double whenever they are full."""


class SharedCache:
    """One sequence of steps, whose states stay in the runtime."""

    def __init__(
        self,
        session: "Callable[[], InferenceSession | None]",
        states: Sequence[TensorInfo],
        pairs: Mapping[str, str],
        outputs: Sequence[str],
        options: Any,  # noqa: ANN401 - onnxruntime has no types
    ) -> None:
        """`session` returns None once the session is closed."""
        self._session, self._states, self._pairs, self._options = session, states, pairs, options
        self._outputs = [name for name in outputs if name not in pairs.values()]
        self._values: dict[str, Any] = {}
        self._room = self._tokens = 0
        self._process = os.getpid()

    def run(self, feeds: Feeds, tokens: int) -> dict[str, Array]:
        """Runs a step that adds `tokens` to the states; returns the other outputs."""
        if os.getpid() != self._process:
            raise UsageError("This sequence began in another process.", "Load the model in this one.")
        session = self._session()
        if session is None:
            raise closed()
        self._reserve(self._tokens + tokens, next(iter(feeds.values())).shape[0])
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
        for past, present in self._pairs.items():
            binding.bind_ortvalue_input(past, self._values[past])
            binding.bind_ortvalue_output(present, self._values[past])
        for name in self._outputs:
            binding.bind_output(name, "cpu")
        try:
            session.run_with_iobinding(binding, self._options)
        except Exception as error:  # its errors have no common class
            raise ModelError(
                f"ONNX Runtime could not run the model: {error_text(error)}",
                "Check the values and the named dimensions of the data against the model.",
            ) from error
        self._tokens += tokens
        made = binding.get_outputs()[len(self._pairs) :]
        return {name: value.numpy() for name, value in zip(self._outputs, made, strict=True)}

    def _reserve(self, tokens: int, batch: int) -> None:
        """Makes longer buffers with the same content if there is no room for as many tokens."""
        from onnxruntime import OrtValue

        if tokens <= self._room:
            return
        room, longer = max(_FIRST_TOKENS, 2 * self._room, tokens), {}
        for info in self._states:
            _, heads, _, width = info.shape
            buffer = np.zeros((batch, int(heads or 0), room, int(width or 0)), np.dtype(info.dtype))
            if self._tokens:
                buffer[:, :, : self._tokens] = self._values[info.name].numpy()[:, :, : self._tokens]
            longer[info.name] = OrtValue.ortvalue_from_numpy(buffer)
        self._room, self._values = room, longer
