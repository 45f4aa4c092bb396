"""A release as its worker process has it loaded: requests in, answers out."""

import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.golden import answer_golden
from edgeopt.bundle.read import Bundle
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.errors import DataError, EdgeoptError
from edgeopt.fleet.records import ServerBatching
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.memory import resident_bytes
from edgeopt.workers.protocol import NO_MEMORY, Failed, failure_of
from edgeopt_agent.drift.look import Axes, TensorSampler, open_axes
from edgeopt_agent.v2.answer import read_answer, write_answer, write_error
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.inflate import inflate
from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.v2.request import MAX_JSON_BYTES, Inference, read_request
from edgeopt_agent.v2.tensors import is_text
from edgeopt_agent.workers.child_io import Frame
from edgeopt_agent.workers.frames import (
    PROTOBUF,
    RAW,
    Answered,
    Compare,
    Compared,
    EndGeneration,
    FromWorker,
    Generate,
    Golden,
    Infer,
    Load,
    Loaded,
    NextPiece,
    NotFinite,
    OutputPowers,
    Port,
    Signature,
    ToWorker,
    Transcribe,
    TryGolden,
)
from edgeopt_agent.workers.sequences import Sequences, carried_state

if TYPE_CHECKING:
    from edgeopt_agent.workers.open_text import OpenText
    from edgeopt_agent.workers.pipeline import Pipeline

MAX_NAME_CHARACTERS = 128
_VALUES_A_PIECE = 1 << 18
_WARM_RUNS = 3
_FEWEST_RUNS, _MAX_RUNS = 20, 200
_ENOUGH_S = 0.2
_NO_MEMORY = re.compile("bad_alloc|bad allocation|[Ff]ailed to allocate memory|MemoryError|Cannot allocate memory")

Reply = tuple[FromWorker, bytes, list[NDArray[np.uint8]]]
Made = TypeVar("Made")


def load_served(message: Load) -> "tuple[Served | None, FromWorker]":
    """Loads the release; returns it ready, and the message to the agent."""
    try:
        session = load(Path(message.folder), fallback=False)
    except (EdgeoptError, MemoryError) as error:
        return None, _failure(error, message)
    deployment = session.deployment
    if deployment is None:
        return None, Failed(f"'{message.folder}' is not a bundle.")
    ports = tuple(_port(info) for info in session.inputs), tuple(_port(info) for info in session.outputs)
    wrong = _unfit(deployment, ports[0])
    if wrong:
        return None, Failed(wrong)
    try:
        pipeline = _pipeline(session, Signature(*ports))
    except EdgeoptError as error:
        return None, _failure(error, message)
    batching = None
    if message.batch_max_size > 1:
        batching = _try_batches(session, message)
    states = carried_state(session)
    processed = pipeline.signature if pipeline is not None else None
    open_text, why_no_text, why_no_speech = _open_text(session, deployment)
    loaded = Loaded(
        *(deployment.name, session.backend, *ports),
        batching=batching,
        states=dict(states),
        processed=processed,
        why_no_text=why_no_text,
        why_no_speech=why_no_speech,
        takes_messages=open_text is not None and open_text.takes_messages,
    )
    sequences = Sequences(session, states, message.max_sequences, message.sequence_idle_s)
    sampler = (
        None
        if message.look_every_s is None
        else TensorSampler(message.look_every_s, _open_axes(deployment, *ports))
    )
    signature = Signature(*ports)
    return Served(session, message, deployment.name, signature, sequences, pipeline, sampler, open_text), loaded


def _pipeline(session: Session, plain: Signature) -> "Pipeline | None":
    """Returns the processing around the model; imported only by workers of bundles that have some."""
    if session.processing is None:
        return None
    from edgeopt_agent.workers.pipeline import pipeline_of

    return pipeline_of(session, plain)


def _open_text(session: Session, deployment: Deployment) -> "tuple[OpenText | None, str, str]":
    """Returns the generation of text, and the reasons that the model takes no prompts and no speech.

    Only workers of language models import it.
    """
    model = f"The model '{deployment.name}'"
    if deployment.cache is None:
        why = f"{model} generates no text: its bundle declares no cache."
        return None, why, why
    from edgeopt_agent.workers.open_text import OpenText

    try:
        found = OpenText(session)
    except EdgeoptError as error:
        why = f"{model} generates no text. {error.message} {error.hint}".rstrip()
        return None, why, why
    if found.is_speech:
        return found, f"{model} transcribes speech: send audio to /v1/audio/transcriptions.", ""
    routes = " or ".join(("/v1/completions", *(["/v1/chat/completions"] if found.takes_messages else [])))
    return found, "", f"{model} continues text: send a prompt to {routes}."


def _try_batches(session: Session, message: Load) -> ServerBatching:
    try:
        trial = session.try_batches(message.batch_max_size)
    except EdgeoptError as error:
        return ServerBatching(message.batch_max_size, message.batch_max_delay_us, False, error.message)
    return ServerBatching(message.batch_max_size, message.batch_max_delay_us, trial.used, trial.reason)


def _failure(error: BaseException, loaded: Load) -> Failed:
    """Returns the failure to report for an error; each runtime says in its own words that memory ran out."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    short = any(isinstance(each, MemoryError) or _NO_MEMORY.search(str(each)) for each in causes)
    if short and loaded.memory_bytes:
        return Failed(f"The worker took more than {loaded.memory_bytes >> 20} MiB of memory.", code=NO_MEMORY)
    return failure_of(error)


def _unfit(deployment: Deployment, inputs: tuple[Port, ...]) -> str:
    """Returns why a deployment profile does not describe the model beside it; empty if it does."""
    if len(deployment.name) > MAX_NAME_CHARACTERS:
        return f"The bundle's name has {len(deployment.name)} characters; at most {MAX_NAME_CHARACTERS} are taken."
    declared = {each.name: each for each in deployment.inputs}
    ports = {port.name: port for port in inputs}
    if declared.keys() != ports.keys():
        names = ", ".join(sorted(declared)), ", ".join(sorted(ports))
        return f"deployment.toml names the inputs '{names[0][:200]}'; the model has '{names[1][:200]}'."
    for name, port in ports.items():
        stated = declared[name]
        if stated.dtype != port.dtype:
            return f"deployment.toml says that the input '{name}' is {stated.dtype}; the model takes {port.dtype}."
        if port.rank_known and not _fits(stated.shape, port.shape):
            return (
                f"deployment.toml gives the input '{name}' the shape {stated.shape}; "
                f"the model has {[*port.shape]}."
            )
    return ""


def _fits(declared: Sequence[int | str], shape: Sequence[int | str | None]) -> bool:
    """Whether the ranks are the same and no two fixed sizes differ."""
    return len(declared) == len(shape) and all(
        one == other
        for one, other in zip(declared, shape, strict=True)
        if isinstance(one, int) and isinstance(other, int)
    )


def _open_axes(deployment: Deployment, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Axes:
    """Returns the axes to look at; OpenVINO names no dimensions, but the bundle does."""
    declared = {each.name: each.shape for each in (*deployment.inputs, *deployment.outputs)}

    def named(port: Port) -> Port:
        known = declared.get(port.name, [])
        if len(known) != len(port.shape):
            return port
        shape = [size or (None if name == "?" else name) for size, name in zip(port.shape, known, strict=True)]
        return msgspec.structs.replace(port, shape=tuple(shape))

    return open_axes([named(port) for port in inputs], [named(port) for port in outputs])


def _port(info: TensorInfo) -> Port:
    return Port(info.name, info.dtype, info.shape, info.rank_known)


@dataclass(frozen=True, slots=True)
class Served:
    session: Session
    loaded: Load
    name: str
    plain: Signature
    sequences: Sequences
    pipeline: "Pipeline | None" = None
    sampler: TensorSampler | None = None
    open_text: "OpenText | None" = None
    pause: Pause = no_pause

    def answer(self, frame: Frame) -> Reply:
        """Returns the reply to a frame; a request that fails gets an error, and the process continues."""
        message = frame.message

        def work() -> Reply:
            if frame.too_large:
                raise MemoryError
            if isinstance(message, Infer):
                return self.run(message, self.read(message, frame.text, frame.data))
            if isinstance(message, Compare):
                return self._compare(message, frame.text, frame.data), b"", []
            if isinstance(message, Generate | Transcribe | NextPiece | EndGeneration):
                assert self.open_text is not None  # noqa: S101 - the agent asks language models only
                return self.open_text.answer(message, frame.text), b"", []
            assert isinstance(message, TryGolden)  # noqa: S101 - it is loaded once
            return self._golden(message), b"", []

        return self.guarded(message, work)

    def guarded(self, message: ToWorker, work: Callable[[], Made]) -> Made | Reply:
        """Returns the result of the work, or the reply that says why it failed."""
        try:
            return work()
        except RequestError as error:
            return self._refused(message, error)
        except EdgeoptError as error:
            failed = _failure(error, self.loaded)
            return self._failed(message, failed, of_request=isinstance(error, DataError))
        except Exception as error:  # noqa: BLE001 - the process's edge: one bad request must not end it
            failed = _failure(error, self.loaded)
            if failed.code != NO_MEMORY:
                traceback.print_exc(file=sys.stderr)
                failed = Failed(f"The model could not be run: {failed.message.rstrip('.')}.")
            return self._failed(message, failed, of_request=False)

    @staticmethod
    def _failed(message: ToWorker, failed: Failed, of_request: bool) -> Reply:
        if not isinstance(message, Infer):
            return failed, b"", []
        if failed.code == NO_MEMORY:
            # The release answers its golden inputs in the same memory: what needs more is this request.
            sentence = f"The request needs too much memory. {failed.message} Send fewer values in one request."
            return Answered(507, 0.0), write_error(sentence), []
        status = 400 if of_request else 500
        return Answered(status, 0.0, fault=not of_request), write_error(failed.message), []

    @staticmethod
    def _refused(message: ToWorker, error: RequestError) -> Reply:
        if not isinstance(message, Infer):
            return Failed(error.sentence), b"", []
        return Answered(error.status, 0.0), write_error(error.sentence), []

    def run(self, message: Infer, inference: Inference) -> Reply:
        """Runs the model for one request; raises RequestError or EdgeoptError."""
        start = time.perf_counter()
        try:
            if inference.sequence is None:
                results = self.session.run(inference.feeds)
            else:
                results = self.sequences.run(inference.sequence, inference.feeds)
        except (EdgeoptError, UnicodeError):
            if all(
                is_text(text) for array in inference.feeds.values() if array.dtype == object for text in array.flat
            ):
                raise
            # ONNX Runtime takes strings from Python's, and so no other bytes.
            raise RequestError(400, "The runtime of this model takes no strings that are not UTF-8.") from None
        return self.write(message, inference, results, (time.perf_counter() - start) * 1e3)

    def write(
        self,
        message: Infer,
        inference: Inference,
        results: dict[str, NDArray[Any]],
        compute_ms: float,
        batched: int = 1,
        executions: int = 1,
    ) -> Reply:
        """Writes the answer to one request; `batched` requests shared the run."""
        odd: NotFinite = ""
        try:
            odd = _not_finite(inference.feeds, results, self.pause)
            plain = results
            start = time.perf_counter()
            results = self._finished(message, results)
            finish_ms = (time.perf_counter() - start) * 1e3
            processing_ms = inference.processing_ms + finish_ms if message.processed else 0.0
            model = (self._name(message), self.loaded.release_id)
            if message.encoding == PROTOBUF:
                from edgeopt_agent.v2 import protobuf

                answer, tensors = protobuf.write_response(model, inference.outputs, results, inference.id)
            else:
                answer, tensors = write_answer(model, inference.outputs, results, inference.id, self.pause)
        except RequestError as error:  # JSON has no NaN
            return Answered(error.status, 0.0, not_finite=odd), write_error(error.sentence), []
        answered = Answered(
            *(200, compute_ms, inference.rows, bool(tensors)),
            not_finite=odd,
            batched=batched,
            executions=executions,
            processing_ms=processing_ms,
            looked=self.sampler.found() if self.sampler is not None else (),
        )
        if self.sampler is not None:
            self.sampler.take(inference.feeds, plain)
        return answered, answer, tensors

    def read(self, message: Infer, text: memoryview, data: memoryview) -> Inference:
        """Reads the request with the inputs of the plain model; raises RequestError or EdgeoptError."""
        pipeline = self.pipeline if message.processed else None
        signature = self.plain if pipeline is None else pipeline.signature
        ports, maximum = (signature.inputs, signature.outputs), self.loaded.max_tensor_elements
        # Sequences are those of the plain model: preprocessing takes all inputs of each request.
        states = self.sequences.states if pipeline is None else {}
        if message.encoding == PROTOBUF:
            from edgeopt_agent.v2 import protobuf  # not loaded by a release that is only asked over HTTP

            found = protobuf.read_request(data, *ports, maximum, states, self.pause)
        else:
            if message.encoding:
                # Without binary data all of it is JSON.
                limit = self.loaded.max_body_bytes
                max_bytes = limit if message.header_length is not None else min(limit, MAX_JSON_BYTES)
                body = inflate(data, message.encoding, max_bytes, self.pause)
                text, data = _split(body, message.header_length)
            found = read_request(text, data, *ports, maximum, states, self.pause)
        return found if pipeline is None else pipeline.prepare(found)

    def _finished(self, message: Infer, results: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self.pipeline.finish(results) if message.processed and self.pipeline is not None else results

    def _name(self, message: Infer) -> str:
        return self.name if message.processed or self.pipeline is None else self.name + RAW

    def _compare(self, message: Compare, text: memoryview, data: memoryview) -> Compared:
        """Compares another release's answer with this one's to the same request."""
        processed = self.pipeline is not None and message.request.processed
        ports = self.pipeline.signature.outputs if self.pipeline and processed else self.plain.outputs
        length = message.request_bytes - len(text)
        answer, start = data[length:], message.answer_header_length
        if message.request.encoding == PROTOBUF:
            from edgeopt_agent.v2 import protobuf

            theirs = protobuf.read_response(answer, ports)
        else:
            tensors = memoryview(b"") if start is None else answer[start:]
            theirs = read_answer(answer[:start], tensors, ports)
        inference = self.read(message.request, text, data[:length])
        if inference.sequence is not None:
            raise RequestError(400, "A request of a sequence is not compared: the other release has its state.")
        feeds = inference.feeds
        results = self._finished(message.request, self.session.run(feeds))
        ours = {name: values for name, values in results.items() if name in theirs}
        # A label may change by rounding, so of processed outputs only NaN and infinity are compared.
        outputs = () if processed else compare_outputs([ours], [theirs]).outputs
        powers = [
            OutputPowers(each.name, sum(each.signal_power), sum(each.noise_power))
            for each in outputs
            if not each.problem
        ]
        odd = all(map(_finite, feeds.values())) and any(
            _finite(ours[name]) and not _finite(theirs[name]) for name in ours
        )
        return Compared(tuple(powers), odd)

    def _golden(self, message: TryGolden) -> Golden:
        assert self.session.deployment is not None  # noqa: S101 - only bundles are served
        bundle = Bundle(Path(self.loaded.folder), self.session.deployment)
        found = answer_golden(bundle, self.session)
        samples = bundle.golden("inputs")
        if message.quick:
            times = [_run_ms(self.session, feeds) for feeds in samples]
        else:
            times = _runs_ms(self.session, samples, message.time_limit_s / 2)
        problem = found.sentence(f"The release {self.loaded.release_id}")
        if not problem and not message.quick and self.session.processor is not None:
            from edgeopt.bundle.golden import problem_with

            problem = problem_with(bundle, self.session.processor, self.session.process) or None
        median_ms = statistics.median(times)
        return Golden(found.accuracy_db, found.floor_db, problem, median_ms, resident_bytes() or 0, len(samples))


def _not_finite(feeds: dict[str, NDArray[Any]], results: dict[str, NDArray[Any]], pause: Pause) -> NotFinite:
    odd = [values for values in results.values() if not _finite(values, pause)]
    if not odd or not all(map(_finite, feeds.values())):
        return ""
    return "nan" if any(np.isnan(values).any() for values in odd) else "infinity"


def _finite(values: NDArray[Any], pause: Pause = no_pause) -> bool:
    if values.dtype.kind != "f":
        return True
    if values.size <= _VALUES_A_PIECE:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    for start in range(0, flat.size, _VALUES_A_PIECE):
        if start:
            pause()
        if not np.isfinite(flat[start : start + _VALUES_A_PIECE]).all():
            return False
    return True


def _split(body: bytes | bytearray, header_length: int | None) -> tuple[memoryview, memoryview]:
    whole = memoryview(body)
    length = len(body) if header_length is None else header_length
    if length > len(body):
        raise RequestError(
            400, f"Inference-Header-Content-Length is {length}, more than the body's {len(body)} bytes."
        )
    return whole[:length], whole[length:]


def _runs_ms(session: Session, samples: list[dict[str, NDArray[Any]]], limit_s: float) -> list[float]:
    """Times at least 20 runs after the warm-up, for a while; fewer if they would take longer than the limit."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < _WARM_RUNS + _MAX_RUNS:
        enough_s = _ENOUGH_S if len(times) >= _WARM_RUNS + _FEWEST_RUNS else limit_s
        if len(times) > _WARM_RUNS and time.perf_counter() - begin > enough_s:
            break
        times.append(_run_ms(session, samples[len(times) % len(samples)]))
    return times[_WARM_RUNS:]


def _run_ms(session: Session, feeds: dict[str, NDArray[Any]]) -> float:
    start = time.perf_counter()
    session.run(feeds)
    return (time.perf_counter() - start) * 1e3
