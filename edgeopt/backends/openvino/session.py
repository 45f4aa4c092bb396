"""A model loaded by OpenVINO."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Array, Feeds, Placement, TensorInfo, closed, prepare
from edgeopt.backends.openvino.lane import Lane, Slot
from edgeopt.backends.openvino.model import Shapes, compile_model, tensor_info, with_shapes
from edgeopt.backends.openvino.options import Aim
from edgeopt.backends.openvino.placement import Places
from edgeopt.errors import MissingExtraError, ModelError, said_by
from edgeopt.hw.freed_memory import give_back

if TYPE_CHECKING:
    import numpy as np
    from openvino import CompiledModel, Core, Model

_ERRORS = (RuntimeError, LookupError, AttributeError, TypeError, ValueError)


class Program:
    """A compiled model and the requests that no thread uses at the moment."""

    def __init__(
        self,
        compiled: "CompiledModel",
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        shapes: Shapes,
    ) -> None:
        self.shapes = shapes
        self.idle: list[Lane] = []
        self.is_open = any(port.get_partial_shape().is_dynamic for port in compiled.inputs)
        self.has_failed = False
        """It is not used again: with open shapes, OpenVINO 2026.4 gives stale results after a run that failed."""
        self.compiled = compiled
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
                # By position: an input that is an output too has both names.
                Slot(index, name, port.get_element_type(), dtype)
                for index, (port, (name, dtype)) in enumerate(zip(self.compiled.inputs, self._inputs, strict=True))
            ]
            waits = self.is_open and _has_one_thread(self.compiled)
            return Lane(self.compiled, slots, self._output_names, self._output_dtypes, waits=waits)


class OpenVinoSession:
    """Safe to use from several threads: each run takes a request of its own."""

    def __init__(
        self,
        runtime: "Core",
        read: "Callable[[], Model]",
        model: "Model",
        aim: Aim,
        shapes: Shapes,
        known: Places | None = None,
    ) -> None:
        """`read`: reads the model again, where one with open shapes must be compiled again."""
        self.inputs = tuple(tensor_info(port) for port in model.inputs)
        self.outputs = tuple(tensor_info(port) for port in model.outputs)
        self._runtime, self._read = runtime, read
        self._aim = aim
        self._known = known
        # Needed for the program with dynamic shapes alone; letting it go frees the weights as they were read.
        self._source = model if shapes else None
        first = with_shapes(model, self.inputs, shapes) if shapes else model
        self._programs = [self._compile(first, shapes)]
        self._idle: Any = self._programs[0].idle
        """The requests of the program that ran last."""
        self._count = len(self.inputs)
        # Held while a program is compiled or becomes the one that ran last; the fast way takes none.
        self._lock = threading.Lock()
        self._closed = False

    @property
    def placement(self) -> Placement | None:
        """None on the processor, where there is nowhere to fall back to."""
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
            # A request that has failed is not used again.
            return self._run_checked(feeds)
        idle.append(lane)
        return results

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._idle = self._source = None
            self._programs = []
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
                f"OpenVINO could not run the model: {said_by(error)}",
                "Check the values and the dynamic dimensions of the data against the model.",
            ) from error
        program.idle.append(lane)
        with self._lock:
            # A run that was under way when the session was closed must not open it again.
            if not self._closed and not program.has_failed:
                self._idle = program.idle
        return results

    def _give_up(self, program: Program) -> None:
        """The next run that fits it compiles it again."""
        with self._lock:
            program.has_failed = True
            if not self._closed:
                self._idle = []

    def _program_for(self, arrays: dict[str, Array]) -> Program:
        """Compiled by the first thread that needs it, while the others wait."""
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

    def _compile(self, model: "Model", shapes: Shapes) -> Program:
        compiled = compile_model(self._runtime, model, self._aim.device, self._aim.config)
        return Program(compiled, self.inputs, self.outputs, shapes)


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
