"""A session with one input buffer for each shape, in the memory of a device or the host.

Feeds are copied there, the runtime computes on the bound buffers, and the results are returned as new arrays. A
CUDA graph replays its kernels on the same addresses, so its outputs have fixed buffers as well.
"""

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeopt.backends.base import Array, Feeds

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_MAX_PLACES = 8
_NO_GRAPH = "-1"

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class BoundMemory(NamedTuple):
    kind: str
    """Kind of memory in ONNX Runtime's terms: `cpu`, `cuda`."""
    device: int = 0


class MemoryPlace:
    """The buffers of inputs of one shape, and their binding."""

    def __init__(
        self, session: "InferenceSession", inputs: dict[str, Array], outputs: list[str], memory: BoundMemory
    ) -> None:
        from onnxruntime import OrtValue

        self.values: list[tuple[str, Any]] = []
        self.binding = session.io_binding()
        self._outputs = outputs
        self._memory = memory
        for name, array in inputs.items():
            value = OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type, *memory)
            self.values.append((name, value))
            self.binding.bind_ortvalue_input(name, value)
        self.let_outputs_be_new()

    def let_outputs_be_new(self) -> None:
        """Binds outputs by their device only, so that each run allocates them in the shape that it computes."""
        for name in self._outputs:
            self.binding.bind_output(name, *self._memory)

    def keep_outputs(self) -> None:
        """Binds the outputs that the last run allocated, so that the next run writes into them."""
        for name, value in zip(self._outputs, self.binding.get_outputs(), strict=True):
            self.binding.bind_ortvalue_output(name, value)


class BoundRun:
    """A replacement for the runtime's `run`; runs one thread at a time, because they share the buffers."""

    def __init__(
        self,
        session: "InferenceSession",
        memory: BoundMemory,
        graph: bool,
        run_options: Any = None,  # noqa: ANN401 - onnxruntime has no types
    ) -> None:
        self._session = session
        self._memory = memory
        self._graph = graph
        self._options = run_options
        self._places: OrderedDict[Shapes, tuple[MemoryPlace, int]] = OrderedDict()
        """Buffers by shapes, each with the number of its CUDA graph; 0 without one."""
        self._graphs = 0
        self._lock = threading.Lock()

    def __call__(self, names: list[str], feeds: Feeds, _options: object) -> list[Array]:
        import numpy as np

        arrays = {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in feeds.items()}
        if any(not array.size for array in arrays.values()):
            # Arrays without values have no memory to bind.
            return list(self._session.run(names, arrays, self._without_graph()))
        with self._lock:
            place, number = self._place(names, arrays)
            for name, value in place.values:
                value.update_inplace(arrays[name])
            if not self._graph:
                place.let_outputs_be_new()
            options = _run_options(str(number)) if number else self._options
            self._session.run_with_iobinding(place.binding, options)
            return list(place.binding.copy_outputs_to_cpu())

    def _place(self, names: list[str], arrays: dict[str, Array]) -> tuple[MemoryPlace, int]:
        shapes = tuple(sorted((name, array.shape) for name, array in arrays.items()))
        if shapes in self._places:
            self._places.move_to_end(shapes)
            return self._places[shapes]
        place = MemoryPlace(self._session, arrays, names, self._memory)
        if self._graph:
            # A run without a graph allocates the outputs; the next run records the graph.
            for name, value in place.values:
                value.update_inplace(arrays[name])
            self._session.run_with_iobinding(place.binding, self._without_graph())
            place.keep_outputs()
            self._graphs += 1
        self._places[shapes] = place, self._graphs
        if len(self._places) > _MAX_PLACES:
            self._forget_the_oldest()
        return self._places[shapes]

    def _forget_the_oldest(self) -> None:
        _, (_, number) = self._places.popitem(last=False)
        # The device would otherwise keep the recorded graph, which can no longer be replayed.
        release = getattr(self._session, "release_captured_graph", None)
        if number and release is not None:
            release(number)

    def _without_graph(self) -> Any:  # noqa: ANN401
        return _run_options(_NO_GRAPH) if self._graph else self._options


def _run_options(graph: str) -> Any:  # noqa: ANN401
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry("gpu_graph_id", graph)
    return options
