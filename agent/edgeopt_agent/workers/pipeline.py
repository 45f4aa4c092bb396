"""A bundle's processing around its model, as requests see it; loaded by workers of bundles that have some."""

import dataclasses
import time
from typing import Any

from numpy.typing import NDArray

from edgeopt.bundle.deployment import Processing, Tensor, info_of
from edgeopt.bundle.processing.run import Processor
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import BundleError, DataError, EdgeoptError, MissingError, error_text
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.request import Inference, rows_in
from edgeopt_agent.v2.tensors import array_type
from edgeopt_agent.workers.frames import Port, Signature

Arrays = dict[str, NDArray[Any]]
_HINT = "Make the bundle again with --pre and --post."
# What numpy raises on tensors of an unexpected shape; a request decides the shapes.
_OF_REQUEST = (ArithmeticError, LookupError, TypeError, ValueError)


class Pipeline:
    """Makes the model's inputs of a request, and the answer of the model's outputs."""

    def __init__(self, processor: Processor, plain: Signature, signature: Signature) -> None:
        self.processor = processor
        self.signature = signature
        self._plain = plain

    def prepare(self, inference: Inference) -> Inference:
        """Returns the request with the inputs of the plain model; raises DataError if they cannot be made."""
        start = time.perf_counter()
        try:
            feeds = self.processor.before(inference.feeds)
        except (DataError, MissingError):
            raise
        except (EdgeoptError, *_OF_REQUEST) as error:
            raise _failed("preprocessing", error) from error
        took_ms = (time.perf_counter() - start) * 1e3
        rows = rows_in(self._plain.inputs, feeds)
        return dataclasses.replace(inference, feeds=feeds, rows=rows, processing_ms=took_ms)

    def finish(self, results: Arrays) -> Arrays:
        """Returns the outputs of the pipeline; raises DataError if they cannot be made."""
        try:
            made = self.processor.after(results)
        except (DataError, MissingError):
            raise
        except (EdgeoptError, *_OF_REQUEST) as error:
            raise _failed("postprocessing", error) from error
        for port in self.signature.outputs:
            array = made.get(port.name)
            kinds = "OUS" if port.dtype == "str" else ""
            if array is None or (array.dtype.kind not in kinds and array.dtype != array_type(port.dtype)):
                found = "none" if array is None else array.dtype.name
                raise BundleError(
                    f"The bundle's postprocessing should give '{port.name}' as {port.dtype}, not {found}.", _HINT
                )
        return made


def pipeline_of(session: Session, plain: Signature) -> Pipeline | None:
    """Returns the pipeline of a bundle, None without processing; raises BundleError if a type is unknown."""
    processor, processing = session.processor, session.processing
    if processor is None or processing is None:
        return None
    signature = Signature(_inputs(processing, plain), _outputs(processing, plain))
    for port in (*signature.inputs, *signature.outputs):
        if port.dtype not in DATATYPES:
            raise BundleError(f"The processing names the type '{port.dtype[:40]}' of '{port.name[:80]}'.", _HINT)
    return Pipeline(processor, plain, signature)


def _inputs(processing: Processing, plain: Signature) -> tuple[Port, ...]:
    """Returns the inputs of the preprocessing, and those of the model that the preprocessing does not make."""
    part = processing.pre
    if part is None:
        return plain.inputs
    # One picture or several, grey or in colour: only the processing can tell what fits.
    own = tuple(_port(each, part.pictures is None and bool(each.shape)) for each in part.inputs)
    known = {port.name for port in own} | {each.name for each in part.outputs}
    return own + tuple(port for port in plain.inputs if port.name not in known)


def _outputs(processing: Processing, plain: Signature) -> tuple[Port, ...]:
    """Returns the outputs of the postprocessing, and those of the model that the postprocessing does not take."""
    part = processing.post
    if part is None:
        return plain.outputs
    own = tuple(_port(each) for each in part.outputs)
    known = {port.name for port in own} | {each.name for each in part.inputs}
    return own + tuple(port for port in plain.outputs if port.name not in known)


def _port(tensor: Tensor, rank_known: bool = True) -> Port:
    return Port(tensor.name, tensor.dtype, info_of(tensor).shape, rank_known)


def _failed(part: str, error: Exception) -> DataError:
    reason = error.message if isinstance(error, EdgeoptError) else error_text(error)
    return DataError(f"The {part} failed: {reason.rstrip('.')}.", "Check the shapes of the request.")
