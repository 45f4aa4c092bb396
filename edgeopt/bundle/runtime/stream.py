"""Models that carry state from run to run: recurrent networks, streaming audio."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.cache import cache_axes, is_cross_attention, present_name
from edgeopt.bundle.deployment import Cache
from edgeopt.errors import DataError, UsageError

if TYPE_CHECKING:
    from edgeopt.backends.onnxruntime.shared_cache import SharedCache

Run = Callable[[Feeds], dict[str, Array]]

_AFTER_INPUTS = ("", "_in", "_prev", "_0", "0")
_AFTER_OUTPUTS = ("N", "n", "_n", "_out", "_next", "_new", "_1", "1", "Out", "Next", "")
_BEFORE_INPUTS = ("", "in_", "input_", "prev_")
_BEFORE_OUTPUTS = ("", "out_", "output_", "next_", "new_")


class Steps(Protocol):
    """One sequence of steps of a decoder."""

    def step(self, feeds: Feeds) -> dict[str, Array]:
        """Runs a step; returns the outputs without the state."""


def decoder_steps(session: "DecoderSession", cache: Cache, given: Feeds | None = None) -> Steps:
    """Returns a new sequence, whose cache stays in the runtime where it can."""
    share = getattr(session, "shared_cache", None)
    shared = share(cache.pairs) if share is not None and not given else None
    if shared is not None:
        return _SharedSteps(shared, cache.tokens)
    return Stream(session.run, session.inputs, session.outputs, None, None, cache, given)


class DecoderSession(Protocol):
    """A session of a backend or of a bundle."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def run(self) -> Run: ...


class _SharedSteps:
    def __init__(self, shared: "SharedCache", tokens: str) -> None:
        self._shared, self._tokens = shared, tokens

    def step(self, feeds: Feeds) -> dict[str, Array]:
        return self._shared.run(feeds, feeds[self._tokens].shape[-1])


class Stream:
    """One sequence of runs; each step feeds the state that the one before it returned.

    One thread at a time may step a stream. Several streams of one session do not disturb each other.
    """

    def __init__(
        self,
        run: Run,
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        declared: Mapping[str, str] | None,
        initial: Feeds | None,
        cache: Cache | None = None,
        given: Feeds | None = None,
    ) -> None:
        """`declared`: output by input, as `Session.stream` takes them; `initial`: first values by input name.

        `given`: arrays by input name that every step feeds; they are not copied, so leave them unchanged.
        """
        if declared is None and cache is not None:
            declared = cache.pairs
        self.pairs = dict(declared) if declared is not None else found_pairs(inputs, outputs)
        """The output that carries the state, by the name of its input."""
        _check(self.pairs, inputs, outputs)
        unknown = next((name for name in initial or () if name not in self.pairs), None)
        if unknown is not None:
            raise UsageError(
                f"'{unknown}' is not a state of this stream.",
                f"The states are: {', '.join(self.pairs)}.",
            )
        self._growing = cache_axes(self.pairs, inputs, outputs)
        """The axis of each state that grows with the sequence, so that it begins at length 0."""
        if cache is not None:
            self._growing |= {name: cache.axis for name in cache.pairs if name in self.pairs}
        self._run = run
        self._carried = tuple(info for info in inputs if info.name in self.pairs)
        self._given = dict(given or {})
        self._fed = tuple(info for info in inputs if info.name not in self.pairs and info.name not in self._given)
        # Copies, here and in `state`: what the caller does to an array later must not change the sequence.
        self._initial = {name: np.array(array) for name, array in (initial or {}).items()}
        self._state: dict[str, Array] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        """The shapes that the other inputs had in the last step."""
        # Made once: a decoder has dozens of states, and a step of it may take a few milliseconds.
        self._equal = tuple(
            (info.name, axis, other.name, place)
            for info, other, axis, dimension in self._dimensions()
            for place, name in enumerate(other.shape)
            if dimension and name == dimension and self._growing.get(other.name) != place
        )
        self._unnamed = tuple(
            (info.name, axis, other.name)
            for info, other, axis, dimension in self._dimensions()
            if not dimension and axis < len(other.shape) and not other.shape[axis]
        )

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the values that the next step feeds, by input name; empty before the first."""
        return {name: np.array(array) for name, array in self._state.items()}

    def step(self, feeds: Feeds | Array) -> dict[str, Array]:
        """Runs the model once and returns the outputs without the state; a failed step leaves the state alone."""
        named_feeds = self._by_name(feeds)
        state = self._state or self._first(named_feeds)
        shapes = {info.name: np.shape(named_feeds[info.name]) for info in self._fed if info.name in named_feeds}
        other = shapes != self._shapes
        if other:
            self._check_sizes(shapes, state)
        outputs = self._run({**named_feeds, **self._given, **state})
        following = {name: outputs.pop(output) for name, output in self.pairs.items()}
        # Later steps do not compute the keys and values of the encoder again; some models return them empty.
        kept = self._state or self._initial
        following |= {name: kept[name] for name in kept if is_cross_attention(name)}
        if other and self._state:
            self._check_broadcast(shapes, following)
        self._state, self._shapes = following, shapes
        return outputs

    def reset(self) -> None:
        """The next step begins a new sequence, from the initial state."""
        self._state, self._shapes = {}, {}

    def _check_sizes(self, shapes: Mapping[str, tuple[int, ...]], state: Mapping[str, Array]) -> None:
        """A dimension of one name has one size: runtimes would broadcast the state of another batch."""
        for fed, axis, other, place in self._equal:
            sizes, kept = shapes.get(fed, ()), state[other].shape
            if axis < len(sizes) and place < len(kept) and sizes[axis] != kept[place]:
                raise _other_size(fed, axis, sizes[axis], other, kept[place])

    def _check_broadcast(self, shapes: Mapping[str, tuple[int, ...]], following: Mapping[str, Array]) -> None:
        """OpenVINO names no dimensions: that sizes which were the same are so no longer shows a broadcast."""
        for fed, axis, other in self._unnamed:
            now, kept, before = shapes.get(fed, ()), self._state[other].shape, self._shapes.get(fed, ())
            if axis >= min(len(now), len(kept), len(before)):
                continue
            sizes = now[axis], kept[axis]
            if before[axis] == kept[axis] and 1 in sizes and following[other].shape[axis] == max(sizes) > 1:
                raise _other_size(fed, axis, sizes[0], other, sizes[1])

    def _dimensions(self) -> Iterator[tuple[TensorInfo, TensorInfo, int, str | None]]:
        """Every open dimension of the other inputs, with every state."""
        for info in self._fed:
            for axis, dimension in enumerate(info.shape):
                if not isinstance(dimension, int):
                    yield from ((info, other, axis, dimension) for other in self._carried)

    def _by_name(self, feeds: Feeds | Array) -> Feeds:
        if isinstance(feeds, Mapping):
            doubled = next((name for name in feeds if name in self.pairs), None)
            if doubled is not None:
                raise UsageError(
                    f"'{doubled}' is state, which the stream feeds from the output '{self.pairs[doubled]}'.",
                    "Leave it out, or say which inputs are state: session.stream(state={INPUT: OUTPUT}).",
                )
            return feeds
        if len(self._fed) == 1:
            return {self._fed[0].name: feeds}
        names = ", ".join(info.name for info in self._fed)
        raise UsageError(
            f"The model has {len(self._fed)} inputs beside its state, so each array needs a name.",
            f"Give a dict of arrays, by the names: {names or 'none'}.",
        )

    def _first(self, feeds: Feeds) -> dict[str, Array]:
        """Initial values or zeros; an open dimension has the size that the feeds give one of that name, else 1."""
        sizes = {
            dimension: size
            for info in self._fed
            if info.name in feeds
            for dimension, size in zip(info.shape, np.shape(feeds[info.name]), strict=False)
            if isinstance(dimension, str) and dimension
        }
        initial = self._initial
        batch = self._batch(feeds)
        return {
            info.name: initial[info.name]
            if info.name in initial
            else _empty_cache(info, self._growing.get(info.name), sizes, batch)
            if info.name in self._growing or present_name(info.name)
            else _zeros(info, sizes)
            for info in self._carried
        }

    def _batch(self, feeds: Feeds) -> int:
        """Returns the size of the first axis of an input that has an open one: OpenVINO names no dimensions."""
        shapes = ((info.shape, np.shape(feeds[info.name])) for info in self._fed if info.name in feeds)
        sizes = (fed[0] for shape, fed in shapes if len(shape) > 1 and fed and not isinstance(shape[0], int))
        return next(sizes, 1)


def _other_size(name: str, axis: int, size: int, state: str, kept: int) -> DataError:
    return DataError(
        f"'{name}' has the size {size} on axis {axis}, but the state '{state}' of this sequence has {kept}.",
        "Begin another sequence for another size: stream.reset(), or another stream.",
    )


def found_pairs(inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]) -> dict[str, str]:
    """Inputs and outputs of one type and fitting shapes whose names say that one becomes the other.

    A name that fits several others is left out. Raises UsageError where that leaves nothing, or no other input.
    """
    fitting = {
        info.name: [o.name for o in outputs if o.name in _names_after(info.name) and not _mismatch(info, o)]
        for info in inputs
    }
    claims = [name for names in fitting.values() for name in names]
    pairs = {name: found[0] for name, found in fitting.items() if len(found) == 1 and claims.count(found[0]) == 1}
    if pairs and len(pairs) < len(inputs):
        return pairs
    why = "every input looks like state" if pairs else "no input and output have names and shapes that match"
    raise UsageError(
        f"The state of the model cannot be detected: {why}.",
        f"Name it: session.stream(state={{INPUT: OUTPUT}}), with the inputs {_listed(inputs)} and the "
        f"outputs {_listed(outputs)}.",
    )


def _names_after(name: str) -> set[str]:
    """Returns the possible names of the output that becomes the input of this name."""
    return {
        before + stem + after
        for stem in _stems(name)
        for before in _BEFORE_OUTPUTS
        for after in _AFTER_OUTPUTS
        if before or after or stem != name
    } | {present_name(name) or ""}


def _stems(name: str) -> Iterator[str]:
    for before in _BEFORE_INPUTS:
        for after in _AFTER_INPUTS:
            if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after):
                yield name[len(before) : len(name) - len(after)]


def _check(pairs: Mapping[str, str], inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]) -> None:
    taken = {info.name: info for info in inputs}
    produced = {info.name: info for info in outputs}
    if not pairs:
        raise UsageError("A stream needs state.", "Name it: session.stream(state={INPUT: OUTPUT}).")
    for name, output in pairs.items():
        if name not in taken:
            raise UsageError(f"The model has no input '{name}'.", f"Its inputs are: {_listed(inputs)}.")
        if output not in produced:
            raise UsageError(f"The model has no output '{output}'.", f"Its outputs are: {_listed(outputs)}.")
        reason = _mismatch(taken[name], produced[output])
        if reason:
            raise UsageError(
                f"The output '{output}' cannot feed the input '{name}': {reason}.", "Name another pair."
            )
    doubled = next((output for output in pairs.values() if list(pairs.values()).count(output) > 1), None)
    if doubled is not None:
        raise UsageError(f"The output '{doubled}' feeds several inputs.", "Name one output for each input.")


def _mismatch(taken: TensorInfo, produced: TensorInfo) -> str:
    """Returns the reason that the output cannot be fed to the input, or an empty text."""
    if taken.dtype != produced.dtype:
        return f"one is of type {produced.dtype}, the other takes {taken.dtype}"
    if not (taken.rank_known and produced.rank_known):
        return ""
    fits = len(taken.shape) == len(produced.shape) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int))
        for a, b in zip(taken.shape, produced.shape, strict=True)
    )
    return "" if fits else f"one has the shape {list(produced.shape)}, the other takes {list(taken.shape)}"


def _zeros(info: TensorInfo, sizes: Mapping[str, int]) -> Array:
    if info.dtype == "str":
        raise UsageError(
            f"The state '{info.name}' holds strings, which have no initial value.", "Give it in `initial`."
        )
    from edgeopt.backends.openvino.session import numpy_dtype

    shape = [d if isinstance(d, int) else sizes.get(d or "", 1) for d in info.shape]
    return np.zeros(shape, numpy_dtype(info.dtype))


def _empty_cache(info: TensorInfo, growing: int | None, sizes: Mapping[str, int], batch: int) -> Array:
    """Returns a cache of no tokens: a token of zeros would get a share of the attention.

    `growing`: the axis of the tokens; None if it is fixed, which leaves zeros, or unknown, which is an error.
    """
    if growing is not None and not 0 < growing < len(info.shape):
        raise UsageError(
            f"The state '{info.name}' has no axis {growing} that could grow: its shape is {list(info.shape)}.",
            "Correct 'axis' in the [cache] of deployment.toml, or give the first state in `initial`.",
        )
    known = sizes if growing is not None else {}
    shape = [d if isinstance(d, int) else known.get(d or "") for d in info.shape]
    if shape and shape[0] is None:
        shape[0] = sizes.get(str(info.shape[0]), batch)
    if growing is not None:
        shape[growing] = 0
    if None in shape or not info.rank_known:
        raise UsageError(
            f"The first size of the state '{info.name}' is unknown: its shape is {list(info.shape)}.",
            "Give an empty one in `initial`, with 0 as the length of its sequence.",
        )
    return _zeros(TensorInfo(info.name, info.dtype, tuple(shape)), {})


def _listed(infos: tuple[TensorInfo, ...]) -> str:
    return ", ".join(info.name for info in infos)
