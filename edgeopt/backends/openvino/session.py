"""A model loaded by OpenVINO."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Array, Feeds, Placement, TensorInfo, closed, prepare
from edgeopt.backends.openvino.model import PortPlaces, Shapes, compile_model, tensor_info, with_shapes
from edgeopt.backends.openvino.options import Aim
from edgeopt.backends.openvino.result_buffers import ResultBuffers
from edgeopt.errors import MissingExtraError, ModelError, error_text
from edgeopt.platform.freed_memory import give_back

if TYPE_CHECKING:
    import numpy as np
    from openvino import CompiledModel, ConstOutput, Core, InferRequest, Model, Tensor, Type

_LARGE_FROM_BYTES = 128 * 1024
"""The size from which sharing memory is faster than copying, and the C library returns freed memory."""
_BUFFERS_PER_OUTPUT = 2
"""The number of buffers that a caller alternates between if it holds one result until it has the next."""
_IN_PLACE: dict[Any, Any] = {}


class Slot:
    """One input of a request: the tensor that is bound to it, and the way to fill it."""

    __slots__ = ("_held", "array", "dtype", "index", "kind", "name", "shape", "view")

    def __init__(self, index: int, name: str, kind: "Type", dtype: "np.dtype[Any]") -> None:
        self.index = index
        self.name = name
        self.kind = kind
        self.dtype = dtype
        self.shape: tuple[int, ...] | None = None
        self.view: Array | None = None
        """Memory of a kept tensor; None if the caller's array is shared."""
        self.array: Array | None = None
        """The caller's array if it is bound."""
        self._held: Array | None = None

    def put(self, request: "InferRequest", array: Array) -> None:
        """Binds an array of any shape; the fast path of a session calls only the parts that it needs."""
        if array.shape != self.shape:
            self._make_room(request, array)
        if self.view is not None:
            self.view[...] = array
        elif array is not self.array:
            self.share(request, array)

    def share(self, request: "InferRequest", array: Array) -> None:
        import numpy as np
        from openvino import Tensor

        direct = array.flags.carray and array.dtype is self.dtype
        bound = array if direct else np.array(array, dtype=self.dtype, order="C")
        request.set_input_tensor(self.index, Tensor(bound, True))
        # A shared tensor does not keep its array alive.
        self._held = bound
        self.array = array if direct else None

    def _make_room(self, request: "InferRequest", array: Array) -> None:
        from openvino import Tensor

        self.shape = array.shape
        self.view = self.array = None
        if array.nbytes < _LARGE_FROM_BYTES or self.dtype.name == "bfloat16":
            tensor = Tensor(self.kind, list(array.shape))
            self.view = tensor.data.view(self.dtype)
            request.set_input_tensor(self.index, tensor)
            self._held = None


class Lane:
    """One inference request with its input tensors kept between runs.

    Measured on OpenVINO 2026.4: `InferRequest.infer(feeds)` spends 47 us around a small model, a call into the
    binding below it with tensors that are already in place spends less than 1 us. Small inputs are copied into
    kept tensors (a new shared tensor costs 4 us); large ones are shared, so that nothing is copied.
    """

    __slots__ = (
        *("_bound", "_buffers", "_casts", "_infer", "_large", "_names", "_small", "_stateful", "_waits"),
        *("request", "slots"),
    )

    def __init__(
        self,
        compiled: "CompiledModel",
        slots: list[Slot],
        names: list[str],
        dtypes: "list[np.dtype[Any]]",
        buffers: ResultBuffers,
        *,
        waits: bool = False,
    ) -> None:
        """Creates a request; with `waits`, a run starts and waits, because `infer` hides errors in one thread
        (OpenVINO 2026.4, open shapes)."""
        from openvino._pyopenvino import InferRequest

        self.request = compiled.create_infer_request()
        self.slots = slots
        self._infer = InferRequest.infer
        self._names = names
        self._buffers = buffers
        self._bound: dict[int, Tensor] = {}
        """Output tensors by the number of the output."""
        self._waits = waits
        self._stateful = bool(self.request.query_state())
        # OpenVINO's arrays hold bfloat16 under the type float16.
        self._casts = [(n, d) for n, d in zip(names, dtypes, strict=True) if d.name == "bfloat16"]
        # These outputs are written straight into buffers, which cannot grow; numpy has no bfloat16 of its own.
        self._large = [
            (index, tuple(port.get_shape()), dtype)
            for index, (port, dtype) in enumerate(zip(compiled.outputs, dtypes, strict=True))
            if _is_large(port) and dtype.name != "bfloat16" and not waits
        ]
        self._small = not waits and not any(_is_open(port) or _is_large(port) for port in compiled.outputs)

    def infer(self) -> dict[str, Array]:
        """Runs on the bound inputs; the caller owns the results."""
        if self._stateful:
            self.request.reset_state()
        if self._small:
            values = self._infer(self.request, _IN_PLACE, False, True).values()
        else:
            values = self._infer_into_buffers()
        results = dict(zip(self._names, values, strict=True))
        for name, dtype in self._casts:
            results[name] = results[name].view(dtype)
        return results

    def _infer_into_buffers(self) -> list[Array]:
        """Runs with large outputs bound to buffers, without a copy; copies other large results into buffers."""
        request, buffers, bound = self.request, self._buffers, self._bound
        written: dict[int, Array] = {}
        for index, shape, dtype in self._large:
            buffer = buffers.take(shape, dtype)
            tensor = buffer.tensor
            if bound.get(index) is not tensor:
                request.set_output_tensor(index, tensor)
                bound[index] = tensor
            written[index] = buffers.lend(buffer)
        if self._waits:
            request.start_async()
            request.wait()
            views = [request.get_output_tensor(index).data for index in range(len(self._names))]
        else:
            views = self._infer(request, _IN_PLACE, True, True).values()
        results = []
        for index, view in enumerate(views):
            if index in written:
                results.append(written[index])
            else:
                results.append(view.copy() if view.nbytes < _LARGE_FROM_BYTES else buffers.copy(view))
        return results


def _is_open(port: "ConstOutput") -> bool:
    return bool(port.get_partial_shape().is_dynamic)


def _is_large(port: "ConstOutput") -> bool:
    return not _is_open(port) and port.get_tensor().size >= _LARGE_FROM_BYTES


_ERRORS = (RuntimeError, LookupError, AttributeError, TypeError, ValueError)


class CompiledProgram:
    """A compiled model and the requests that no thread is using."""

    def __init__(
        self,
        compiled: "CompiledModel",
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        shapes: Shapes,
        buffers: ResultBuffers,
    ) -> None:
        self.shapes = shapes
        self.idle: list[Lane] = []
        self.is_open = any(_is_open(port) for port in compiled.inputs)
        self.has_failed = False
        """Whether a run failed; with open shapes, OpenVINO 2026.4 then gives stale results in later runs."""
        self.compiled = compiled
        self._buffers = buffers
        self._inputs = [(info.name, numpy_dtype(info.dtype)) for info in inputs]
        self._output_dtypes = [numpy_dtype(info.dtype) for info in outputs]
        self._output_names = [info.name for info in outputs]

    def fits(self, arrays: dict[str, Array]) -> bool:
        return all(arrays[name].shape == shape for name, shape in self.shapes.items())

    def take(self) -> Lane:
        try:
            return self.idle.pop()
        except IndexError:
            slots = [
                # Slots are found by position, because an input that is also an output has both names.
                Slot(index, name, port.get_element_type(), dtype)
                for index, (port, (name, dtype)) in enumerate(zip(self.compiled.inputs, self._inputs, strict=True))
            ]
            waits = self.is_open and _has_one_thread(self.compiled)
            return Lane(self.compiled, slots, self._output_names, self._output_dtypes, self._buffers, waits=waits)


class OpenVinoSession:
    """A session that is safe to use from several threads, because each run takes a request of its own."""

    def __init__(
        self,
        runtime: "Core",
        read: "Callable[[], Model]",
        model: "Model",
        aim: Aim,
        shapes: Shapes,
        known: PortPlaces | None = None,
    ) -> None:
        """Compiles the first program; `read` reads the model again for later programs with open shapes."""
        self.inputs = tuple(tensor_info(port) for port in model.inputs)
        self.outputs = tuple(tensor_info(port) for port in model.outputs)
        self._runtime, self._read = runtime, read
        self._aim = aim
        self._known = known
        self._buffers = ResultBuffers(_BUFFERS_PER_OUTPUT * len(self.outputs))
        # Only the program with open shapes needs the model; releasing it frees the weights.
        self._source = model if shapes else None
        first = with_shapes(model, self.inputs, shapes) if shapes else model
        self._programs = [self._compile(first, shapes)]
        self._idle: Any = self._programs[0].idle
        """Idle requests of the program that ran last."""
        self._count = len(self.inputs)
        # The lock is held while a program is compiled or becomes the one that ran last; the fast path does not
        # take it.
        self._lock = threading.Lock()
        self._closed = False

    @property
    def placement(self) -> Placement | None:
        """Placement of the nodes; None on the processor, which has nothing to fall back to."""
        programs = self._programs
        if self._known is None or not programs:
            return None
        return self._known.placement(programs[0].compiled)

    def run(self, feeds: Feeds) -> dict[str, Array]:
        try:
            idle = self._idle
            lane = idle.pop()
            request = lane.request
            for slot in lane.slots:
                array = feeds[slot.name]
                if array.shape != slot.shape or array.dtype is not slot.dtype:
                    idle.append(lane)
                    return self._run_checked(feeds)
                if slot.view is not None:
                    slot.view[...] = array
                elif array is not slot.array:
                    slot.share(request, array)
            if len(feeds) != self._count:
                return self._run_checked(feeds)
            results: dict[str, Array] = lane.infer()
        except _ERRORS:
            # A failed request is not used again.
            return self._run_checked(feeds)
        idle.append(lane)
        return results

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._idle = self._source = None
            self._programs = []
        self._buffers.close()
        give_back()

    def _run_checked(self, feeds: Feeds) -> dict[str, Array]:
        if self._closed:
            raise closed()
        return self._run_prepared(prepare(self.inputs, feeds))

    def _run_prepared(self, arrays: dict[str, Array]) -> dict[str, Array]:
        program = self._program_for(arrays)
        try:
            lane = program.take()
            for slot in lane.slots:
                slot.put(lane.request, arrays[slot.name])
            results = lane.infer()
        except _ERRORS as error:
            if program.is_open:
                self._give_up(program)
            raise ModelError(
                f"OpenVINO could not run the model: {error_text(error)}",
                "Check the values and the dynamic dimensions of the data against the model.",
            ) from error
        program.idle.append(lane)
        with self._lock:
            # A run that was in progress when the session was closed must not add a request again.
            if not self._closed and not program.has_failed:
                self._idle = program.idle
        return results

    def _give_up(self, program: CompiledProgram) -> None:
        """Marks a program as failed, so that the next run that fits it compiles it again."""
        with self._lock:
            program.has_failed = True
            if not self._closed:
                self._idle = []

    def _program_for(self, arrays: dict[str, Array]) -> CompiledProgram:
        """Returns the program for these arrays, compiled by the first thread that needs it."""
        with self._lock:
            if self._closed:
                raise closed()
            program = next((p for p in self._programs if p.fits(arrays)), None)
            if program is None:
                program = self._compile(self._source, {})
                self._programs.append(program)
            elif program.has_failed:
                model = self._source or self._read()
                shaped = with_shapes(model, self.inputs, program.shapes) if program.shapes else model
                fresh = self._compile(shaped, program.shapes)
                self._programs[self._programs.index(program)] = program = fresh
            return program

    def _compile(self, model: "Model", shapes: Shapes) -> CompiledProgram:
        compiled = compile_model(self._runtime, model, self._aim.device, self._aim.config)
        return CompiledProgram(compiled, self.inputs, self.outputs, shapes, self._buffers)


def _has_one_thread(compiled: "CompiledModel") -> bool:
    try:
        return int(compiled.get_property("INFERENCE_NUM_THREADS")) == 1
    except RuntimeError:  # another device, which has no threads
        return False


def numpy_dtype(name: str) -> "np.dtype[Any]":
    import numpy as np

    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise MissingExtraError("optimize", "A model with bfloat16 inputs or outputs") from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype
