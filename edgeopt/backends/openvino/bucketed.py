"""A session with a program for each bucket; inputs between buckets may be padded to the next one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.buckets import Buckets, Fit, Masked, cut_back, fill_up, read_buckets
from edgeopt.backends.openvino.model import PortPlaces, tensor_info, with_shapes
from edgeopt.backends.openvino.options import Aim, SharedOptions
from edgeopt.backends.openvino.session import _ERRORS, CompiledProgram, OpenVinoSession

if TYPE_CHECKING:
    from openvino import Core, Model

# The most shapes whose program is remembered; other shapes are looked up in each run.
_MAX_ROADS = 1024

Key = tuple[tuple[int, ...], ...]


class Road(NamedTuple):
    """The program and the padding for feeds of some shapes."""

    program: CompiledProgram
    fit: Fit | None


class BucketSession(OpenVinoSession):
    """A session that compiles all its programs when created, one with open shapes only if needed."""

    def __init__(
        self,
        runtime: "Core",
        read: "Callable[[], Model]",
        model: "Model",
        aim: Aim,
        buckets: Buckets,
        known: PortPlaces | None = None,
    ) -> None:
        first, *others = buckets.programs
        super().__init__(runtime, read, model, aim, first, known)
        self._buckets = buckets
        self._names = [info.name for info in self.inputs]
        self._roads: dict[Key, Road] = {}
        masked = buckets.masked
        self._masked = Masked(buckets.mask, masked) if masked is not None else None
        self._programs += [self._compile(with_shapes(model, self.inputs, shapes), shapes) for shapes in others]
        if buckets.leave_gaps:
            self._programs.append(self._compile(model, {}))

    def run(self, feeds: Feeds) -> dict[str, Array]:
        whole = feeds
        try:
            if self._masked is not None:
                shortened = self._masked.shortened(feeds)
                if shortened is None:
                    return self._run_checked(whole)
                feeds = shortened
            road = self._roads[tuple([feeds[name].shape for name in self._names])]
            lane = road.program.idle.pop()
            fit = road.fit
            for slot in lane.slots:
                array = feeds[slot.name]
                if array.dtype is not slot.dtype:
                    return self._run_checked(whole)
                if fit is not None and slot.name in fit.regions:
                    array = fill_up(array, fit.shapes[slot.name], fit.regions[slot.name])
                slot.put(lane.request, array)
            if len(feeds) != self._count:
                return self._run_checked(whole)
            results: dict[str, Array] = lane.infer()
        except _ERRORS:
            # A failed request is not used again.
            return self._run_checked(whole)
        road.program.idle.append(lane)
        if fit is not None:
            cut_back(results, fit.cuts)
        return results

    def close(self) -> None:
        super().close()
        self._roads = {}

    def _give_up(self, program: CompiledProgram) -> None:
        super()._give_up(program)
        self._roads = {}

    def _run_prepared(self, arrays: dict[str, Array]) -> dict[str, Array]:
        blank = False
        if self._masked is not None:
            shortened = self._masked.shortened(arrays)
            blank = shortened is None
            arrays = dict(shortened or arrays)
        shapes = {name: array.shape for name, array in arrays.items()}
        fit = self._buckets.fit(shapes)
        if blank and fit is not None and fit.regions:
            # This program has open shapes: rows without kept positions must keep their length.
            return super()._run_prepared(arrays)
        if fit is not None and fit.regions:
            arrays = dict(arrays)
            for name, region in fit.regions.items():
                arrays[name] = fill_up(arrays[name], fit.shapes[name], region)
        results = super()._run_prepared(arrays)
        if fit is not None:
            cut_back(results, fit.cuts)
        program = self._program_for(arrays)
        with self._lock:
            # A run that was in progress when the session was closed must not add a program again.
            if not self._closed and len(self._roads) < _MAX_ROADS:
                self._roads[tuple(shapes[name] for name in self._names)] = Road(program, fit)
        return results


def bucketed(
    runtime: "Core",
    read: "Callable[[], Model]",
    model: "Model",
    aim: Aim,
    options: SharedOptions,
    known: PortPlaces | None,
) -> BucketSession:
    inputs = tuple(tensor_info(port) for port in model.inputs)
    found = read_buckets(
        options.shapes,
        options.buckets,
        options.bucket_axes,
        options.bucket_cuts,
        inputs,
        options.bucket_mask,
        options.bucket_fill,
    )
    return BucketSession(runtime, read, model, aim, found, known)
