"""A model loaded by OpenVINO."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends.base import Array, Feeds, Options, TensorInfo
from edgeopt.backends.feeds import closed, prepare
from edgeopt.backends.openvino.lane import Lane, Slot
from edgeopt.backends.openvino.model import (
    Shapes,
    compile_model,
    core,
    port_name,
    read_model,
    tensor_info,
    with_shapes,
)
from edgeopt.backends.openvino.options import OpenVinoOptions, compile_config
from edgeopt.backends.options import read_options
from edgeopt.errors import MissingExtraError, ModelError, said_by

if TYPE_CHECKING:
    from openvino import CompiledModel, Model

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
        self._compiled = compiled
        self._input_dtypes = {info.name: numpy_dtype(info.dtype) for info in inputs}
        self._output_dtypes = [numpy_dtype(info.dtype) for info in outputs]
        self._output_names = [info.name for info in outputs]

    def fits(self, arrays: dict[str, Array]) -> bool:
        return all(arrays[name].shape == shape for name, shape in self.shapes.items())

    def take(self) -> Lane:
        try:
            return self.idle.pop()
        except IndexError:
            slots = [
                Slot(index, name, port.get_element_type(), self._input_dtypes[name])
                for index, port in enumerate(self._compiled.inputs)
                for name in (port_name(port),)
            ]
            return Lane(self._compiled, slots, self._output_names, self._output_dtypes)


class OpenVinoSession:
    """Safe to use from several threads: each run takes a request of its own."""

    def __init__(self, model: "Model", options: OpenVinoOptions) -> None:
        self.inputs = tuple(tensor_info(port) for port in model.inputs)
        self.outputs = tuple(tensor_info(port) for port in model.outputs)
        self._config = compile_config(options)
        # Needed for the program with dynamic shapes alone; letting it go frees the weights as they were read.
        self._source = model if options.shapes else None
        first = with_shapes(model, self.inputs, dict(options.shapes)) if options.shapes else model
        self._programs = [self._compile(first, dict(options.shapes))]
        self._idle: Any = self._programs[0].idle
        """The requests of the program that ran last."""
        self._count = len(self.inputs)

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
        self._idle = self._source = None
        self._programs = []

    def _run_checked(self, feeds: Feeds) -> dict[str, Array]:
        if self._idle is None:
            raise closed()
        arrays = prepare(self.inputs, feeds)
        program = next((p for p in self._programs if p.fits(arrays)), None)
        if program is None:
            program = self._compile(self._source, {})
            self._programs.append(program)
        try:
            lane = program.take()
            for slot in lane.slots:
                slot.put(lane.request, arrays[slot.name])
            results = lane.infer()
        except _ERRORS as error:
            raise ModelError(
                f"OpenVINO could not run the model: {said_by(error)}",
                "Check the values and the dynamic dimensions of the data against the model.",
            ) from error
        program.idle.append(lane)
        self._idle = program.idle
        return results

    def _compile(self, model: "Model", shapes: Shapes) -> Program:
        return Program(compile_model(model, self._config), self.inputs, self.outputs, shapes)


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise MissingExtraError("optimize", "A model with bfloat16 inputs or outputs") from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def load_session(path: Path, options: Options, backend: str) -> OpenVinoSession:
    chosen = read_options(OpenVinoOptions, options, backend)
    core()
    return OpenVinoSession(read_model(path), chosen)
