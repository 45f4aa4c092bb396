"""`edgeopt.load`: a bundle or a model, ready to run."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from edgeopt.backends.base import Array, Feeds, Options, Placement, TensorInfo, closed
from edgeopt.backends.base import fallback as fallen_back
from edgeopt.bundle.deployment import Cache, Deployment, Processing
from edgeopt.bundle.plan import limits_in
from edgeopt.bundle.read import Bundle
from edgeopt.bundle.runtime.forked import by_name, close_nothing, never_free, refuse_fork, watch_forks
from edgeopt.bundle.runtime.locate import SessionPlace, locate
from edgeopt.errors import BundleError, EdgeoptError, MissingError, UsageError, no_outputs
from edgeopt.graph.import_proof import InputLimits

if TYPE_CHECKING:
    from edgeopt.backends.onnxruntime.shared_cache import SharedCache
    from edgeopt.bundle.processing.run import Processor
    from edgeopt.bundle.runtime.batch_trial import BatchSubject, BatchTrial
    from edgeopt.bundle.runtime.batching import Batcher, Batching, RunThreads
    from edgeopt.bundle.runtime.generation import Generation
    from edgeopt.bundle.runtime.isolated.session import Isolation
    from edgeopt.bundle.runtime.stream import Stream
    from edgeopt.bundle.runtime.text_generation import GenerateKeywords, Ids, Prompt, Stop, TextGeneration
    from edgeopt.bundle.runtime.transcription import SpeechModel, Transcription
    from edgeopt.text.tokenizer import Messages, Tokenizer

_log = logging.getLogger(__name__)

_CONCURRENCY = 2
"""One run computes while another is prepared; most runtimes use all cores in a single run."""


class Session:
    """A loaded deployment. `run(feeds)` takes arrays by input name and returns arrays by output name.

    A model with one input also takes its array alone: `run(array)`. Results stay valid after the next run. `run`
    is the model alone; `process(raw)` also does what the bundle has for before and after it.

    Several threads may run it at the same time. Once closed, whatever runs it raises a UsageError.
    """

    __slots__ = (
        "__weakref__",
        *("backend", "batch_trial", "deployment", "inputs", "outputs", "processor", "run"),
        *(
            "_batcher",
            "_batching",
            "_close",
            "_closed",
            "_concurrency",
            "_encoder",
            "_held",
            "_load_encoder",
            "_loaded",
            "_lock",
            "_model",
            "_replace_run",
            "_run_threads",
            "_text",
            "_tokenizer",
        ),
    )

    def __init__(
        self,
        place: SessionPlace,
        *,
        strict: bool = False,
        custom_ops: tuple[str, ...] = (),
        concurrency: int | None = None,
        batching: "Batching | None" = None,
        load_encoder: "Callable[[], Session] | None" = None,
    ) -> None:
        """Holds the place's bundle, which stays unpacked until the session is closed."""
        loaded = place.backend.load(place.model, place.options, strict=strict, custom_ops=custom_ops)
        self.backend = place.backend.name
        self.deployment = deployment = place.deployment
        self.inputs: tuple[TensorInfo, ...] = loaded.inputs
        self.outputs: tuple[TensorInfo, ...] = loaded.outputs
        self.run, self._replace_run = by_name(loaded, _limits_of(deployment, place.model))
        self._close = loaded.close
        self._loaded = loaded
        self._model = place.model
        self._held = held = place.bundle
        self.processor = _processor(deployment, held)
        self._concurrency = concurrency or _concurrency_of(deployment)
        self._batching = batching
        self.batch_trial: BatchTrial | None = None
        """Whether `batching` is used on this device, with the reason; None where it was not asked for."""
        self._batcher: Batcher | None = None
        self._run_threads: RunThreads | None = None
        self._lock = threading.Lock()
        """Held while `run_async` gets its threads and while the session closes."""
        self._closed = False
        self._text = place.text
        self._tokenizer: Tokenizer | None = None
        self._load_encoder = load_encoder
        self._encoder: Session | None = None
        watch_forks(self)
        if batching is not None:
            try:
                self.batch_trial = self.try_batches(batching.max_size)
            except BaseException:
                self.close()
                raise

    @property
    def processing(self) -> Processing | None:
        """Returns the pre- and postprocessing that `process` runs, or None if there is none."""
        return self.deployment.processing if self.deployment is not None else None

    def process(self, raw: Feeds) -> dict[str, Array]:
        """Preprocessing, the model, postprocessing; without these the same as `run`."""
        if self._closed:
            raise closed()
        processor = self.processor
        return self.run(raw) if processor is None else processor.after(self.run(processor.before(raw)))

    async def run_async(self, feeds: Feeds | Array) -> dict[str, Array]:
        """`run` on a thread of the session, so that the event loop goes on; the rest wait in a queue.

        Leave the arrays unchanged until it returns. A cancelled caller gives up its place in the queue; a run that
        is under way ends, and its result is dropped. With `batching`, equal shapes are run together.
        """
        threads = self._pool()
        return await (threads.run(self.run, feeds) if self._batcher is None else self._batcher.run(feeds))

    def stream(self, state: Mapping[str, str] | None = None, initial: Feeds | None = None) -> "Stream":
        """Runs that carry state from one to the next: `stream.step(feeds)`.

        `state` names the output that becomes each input of the next run, `{"state": "stateN"}`; without it, pairs
        are found by name, type and shape. `initial` has first values by input name; the others begin as zeros.
        """
        if self._closed:
            raise closed()
        from edgeopt.bundle.runtime.stream import Stream

        cache = self.deployment.cache if self.deployment is not None else None
        return Stream(self.run, self.inputs, self.outputs, state, initial, cache)

    @overload
    def generate(self, prompt: "str | Messages", **keywords: "Unpack[GenerateKeywords]") -> "TextGeneration": ...

    @overload
    def generate(self, prompt: "Ids", **keywords: "Unpack[GenerateKeywords]") -> "Generation": ...

    def generate(  # noqa: PLR0913 - keywords, each with a default
        self,
        prompt: "Prompt",
        *,
        max_tokens: int = 128,
        stop: "Stop" = (),
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        max_step_tokens: int | None = None,
    ) -> "Generation | TextGeneration":
        """Returns what a decoder continues a prompt with, piece by piece; `close` of the iterator ends it.

        A text, or a list of messages such as `{"role": "user", "content": "Hello"}`, gives pieces of text; token
        ids give ids. It ends before a text or id of `stop`, after `max_tokens`, or when the longest context is
        full. At `temperature` 0 each token is the most likely one; otherwise it is drawn from the `top_k` most
        likely ones (0: all) and the fewest that have the probability `top_p` together, and `seed` makes the draws
        repeatable. For text, the model's own settings are the defaults of these three, and its end tokens stop
        too; for ids, the most likely token is the default. A prompt with more than `max_step_tokens` tokens is
        computed in several runs, which needs less memory than the default: one run.
        """
        if self._closed:
            raise closed()
        from edgeopt.bundle.runtime.generation import DecoderPorts, Generation, Sampler
        from edgeopt.bundle.runtime.stream import decoder_steps
        from edgeopt.bundle.runtime.text_generation import TextGeneration, is_text, split_stop
        from edgeopt.text.stream import TextStream

        cache = self._cache()
        if cache.given:
            raise UsageError(
                "The model needs what its encoder computes, so it does not continue a prompt.",
                "For speech, use session.transcribe(audio), or edgeopt run MODEL --audio FILE.",
            )
        ports = DecoderPorts(cache, self.inputs, self.outputs)
        texts, ids = split_stop(stop)
        if not is_text(prompt):
            if texts:
                raise UsageError("Token ids cannot stop at a text.", "Give 'stop' as ids, or the prompt as text.")
            sampler = Sampler(temperature or 0.0, top_k or 0, 1.0 if top_p is None else top_p, seed)
            return Generation(decoder_steps(self, cache), ports, prompt, max_tokens, ids, sampler, max_step_tokens)
        tokenizer = self.tokenizer
        sampler = Sampler(*tokenizer.settings.sampling(temperature, top_k, top_p), seed)
        tokens = tokenizer.encode(prompt)
        stop_ids = (*ids, *tokenizer.stop_ids)
        generation = Generation(
            decoder_steps(self, cache), ports, tokens, max_tokens, stop_ids, sampler, max_step_tokens
        )
        return TextGeneration(generation, TextStream(tokenizer.decode, tokens, texts))

    def shared_cache(self, pairs: Mapping[str, str]) -> "SharedCache | None":
        """Returns a new sequence whose states stay in the runtime; None where `stream` has to carry them."""
        share = getattr(self._loaded, "shared_cache", None)
        return share(pairs) if share is not None and self._close is not close_nothing else None

    def transcribe(
        self,
        audio: "str | Path | bytes | memoryview | Array",
        *,
        language: str | None = None,
        task: str = "transcribe",
        max_tokens: int | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> "Transcription":
        """Returns the text of speech, piece by piece; `close` of the iterator ends it.

        `audio` is a WAV file, its path or its bytes, or float samples at the rate of the model (16 kHz). A
        `language`, such as `de`, is
        that of the speech; without it, the model detects it. The `task` `translate` gives English text.
        `max_tokens` limits the tokens of the whole text; by default only the context limits those of each window.
        """
        if self._closed:
            raise closed()
        from edgeopt.bundle.runtime.transcription import Transcription

        return Transcription(self.speech_model, audio, language, task, max_tokens, temperature, seed)

    @property
    def speech_model(self) -> "SpeechModel":
        """Returns the model with its encoder, as `transcribe` uses it; raises UsageError if it takes no audio."""
        from edgeopt.bundle.runtime.transcription import SpeechModel

        return SpeechModel(self, self.encoder, self._cache(), self.tokenizer, self._text)

    @property
    def encoder(self) -> "Session":
        """Returns the session of the encoder, loaded when first used; raises UsageError if there is none."""
        with self._lock:
            if self._closed:
                raise closed()
            if self._encoder is None:
                if self._load_encoder is None:
                    name = self.deployment.name if self.deployment is not None else self._model.stem
                    raise UsageError(
                        f"The model '{name}' takes no audio: it has no encoder.",
                        "A language model takes --prompt. The encoder of a speech model is NAME.encoder.onnx "
                        "beside NAME.onnx, or in the folder encoder/ of a bundle.",
                    )
                self._encoder = self._load_encoder()
            return self._encoder

    def _cache(self) -> Cache:
        from edgeopt.bundle.cache import found_cache

        declared = self.deployment.cache if self.deployment is not None else None
        return declared or found_cache(self.inputs, self.outputs, _limits_of(self.deployment, self._model))

    @property
    def tokenizer(self) -> "Tokenizer":
        """Returns the tokenizer of the bundle or beside the model; raises UsageError if there is none."""
        if self._tokenizer is None:
            from edgeopt.text.tokenizer import load_tokenizer

            self._tokenizer = load_tokenizer(self._text)
        return self._tokenizer

    @property
    def placement(self) -> Placement | None:
        """Returns where the nodes run now: OpenVINO's AUTO starts on the processor and moves on."""
        return self._loaded.placement

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory of its worker process; None without `isolate`, and while a worker starts."""
        from edgeopt.bundle.runtime.isolated.session import IsolatedSession

        return self._loaded.memory_bytes if isinstance(self._loaded, IsolatedSession) else None

    def close(self) -> None:
        """Waits for the runs of `run_async` that are under way, and gives the runtime's memory back."""
        with self._lock:
            already, self._closed = self._closed, True
        if already:
            return
        if self._run_threads is not None:
            self._run_threads.close()
        self._close()
        if self._encoder is not None:
            self._encoder.close()
        if self.processor is not None:
            self.processor.close()
        self._held = None

    def try_batches(self, max_size: int) -> "BatchTrial":
        """Whether batches are right and faster on this device; tried on golden samples if the bundle has some."""
        from edgeopt.bundle.runtime.batch_trial import try_batches

        return try_batches(self._batch_subject(), self.golden(), max_size)

    def check_batching(self, samples: "Sequence[Feeds]", max_size: int) -> None:
        """Raises UsageError where samples would not keep their own results in batches of this size."""
        from edgeopt.bundle.runtime.batch_trial import check_batching

        check_batching(self._batch_subject(), samples, max_size)

    def _batch_subject(self) -> "BatchSubject":
        from edgeopt.bundle.runtime.batch_trial import BatchSubject

        deployment = self.deployment
        proof = (deployment.evidence or deployment.predicted) if deployment is not None else None
        floor_db = proof.floor_db if proof is not None else 0.0
        rows = deployment.batches if deployment is not None else None
        return BatchSubject(self.run, self.inputs, self.outputs, self._model, floor_db, rows)

    def golden(self) -> list[dict[str, Array]]:
        """The golden inputs of its bundle; none for a plain model."""
        return self._held.golden("inputs") if self._held is not None else []

    def before_fork(self) -> None:
        """Does nothing: the session shares nothing with a fork."""

    def after_fork(self) -> None:
        """A session with a worker gets one of its own; the runtime of another cannot run here."""
        from edgeopt.bundle.runtime.isolated.session import IsolatedSession

        self._lock = threading.Lock()
        self._run_threads = self._batcher = None
        if self.processor is not None:
            self.processor.after_fork()
        if self._closed or isinstance(self._loaded, IsolatedSession):
            return
        never_free(self._loaded)
        self._replace_run(refuse_fork)
        self._close = close_nothing

    def _pool(self) -> "RunThreads":
        """Imported and made for those who need it, by the first who does."""
        with self._lock:
            if self._closed:
                raise closed()
            if self._run_threads is None:
                from edgeopt.bundle.runtime.batching import RunThreads

                self._run_threads = RunThreads(self._concurrency)
                if self._batching is not None and self.batch_trial is not None and self.batch_trial.used:
                    from edgeopt.bundle.runtime.batching import Batcher

                    self._batcher = Batcher(self.run, self.inputs, self._run_threads, self._batching)
            return self._run_threads

    def __enter__(self) -> "Session":
        if self._closed:
            raise closed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _concurrency_of(deployment: Deployment | None) -> int:
    """Returns the number of concurrent callers in the bundle's proof under load, or the default."""
    evidence = deployment.evidence if deployment is not None else None
    load = evidence.load if evidence is not None else None
    return load.callers if load is not None else _CONCURRENCY


def _limits_of(deployment: Deployment | None, model: Path) -> InputLimits:
    """Returns the sizes that the model is for, by the bundle or by the metadata of `edgeopt import`."""
    if deployment is not None:
        return {each.name: each.limits for each in deployment.inputs if each.limits}
    return limits_in(model)


def _processor(deployment: Deployment | None, held: Bundle | None) -> "Processor | None":
    """Imported for those who have some: each trial and each start of a device pays for what is imported here."""
    if deployment is None or held is None or deployment.processing is None:
        return None
    from edgeopt.bundle.processing.run import Processor

    return Processor(deployment.processing, held.folder, deployment.inputs)


def load(  # noqa: PLR0913 - keywords, each with a default
    path: str | Path,
    backend: str | None = None,
    options: Options | None = None,
    *,
    strict: bool = False,
    custom_ops: Sequence[str | Path] = (),
    concurrency: int | None = None,
    batching: "Batching | None" = None,
    isolate: "bool | Isolation" = False,
    fallback: bool = True,
) -> Session:
    """Loads a bundle (checked first, with the backend and options it was proved with) or a plain model.

    If the backend of a bundle is not available, the next one that reads its model runs it, with a warning, if it
    reproduces the golden outputs; `fallback=False` refuses instead. Nodes that fall back to another provider or
    device are in `Session.placement` and in the log; `strict` refuses both. `custom_ops` are libraries with
    operators of your own, for models only. `concurrency` is how many runs of `run_async` are under way at once: by
    default the number of callers that a bundle was proved with, else 2. `batching` makes batches of its calls if
    that is faster on this device; a model that cannot be batched is refused with a UsageError.
    `isolate` runs the model in a worker process: a crash, a hang or a lack of memory there is the WorkerError of
    one request. `edgeopt.Isolation` holds the limits.
    """
    if concurrency is not None and concurrency < 1:
        raise UsageError(
            f"A session cannot have {concurrency} concurrent runs.", "Give at least 1, or leave 'concurrency' out."
        )
    place = locate(Path(path), backend, options, fallback=fallback and not strict)
    if place.deployment is not None and custom_ops:
        raise UsageError(
            "A bundle takes no libraries of custom operators: its manifest must cover all code it runs.",
            "Load the model file with the libraries instead.",
        )
    if isolate:
        from edgeopt.bundle.runtime.isolated.session import Isolation, isolated

        limits = isolate if isinstance(isolate, Isolation) else Isolation()
        place = replace(place, backend=isolated(place.backend, limits))
    libraries = tuple(str(each) for each in custom_ops)
    load_encoder = None
    if place.encoder is not None:
        run = (backend, options) if place.bundle is None else (None, None)
        load_encoder = partial(
            load, place.encoder, *run, strict=strict, custom_ops=libraries, isolate=isolate, fallback=fallback
        )
    try:
        session = Session(
            place,
            strict=strict,
            custom_ops=libraries,
            concurrency=concurrency,
            batching=batching,
            load_encoder=load_encoder,
        )
    except EdgeoptError as error:
        if place.bundle is not None and place.bundle.held is not None:
            place.bundle.held.name_file_in(error)
        if place.replaces is not None:
            raise MissingError(
                f"The bundle '{Path(path).name}' needs the backend {place.replaces}, which is not available here. "
                f"Its replacement {place.backend.name} cannot load the model: {error.message}",
                f"Install {place.replaces}, or run `edgeopt optimize` on this device.",
            ) from error
        raise
    if not session.outputs:
        session.close()
        raise no_outputs(place.model.name)
    if place.replaces is not None and place.bundle is not None:
        _check_fallback(session, place.bundle, place.replaces)
    warning = fallen_back(session.placement)
    if warning is not None:
        _log.warning("'%s': %s.", Path(path).name, warning)
    return session


def _check_fallback(session: Session, bundle: Bundle, missing: str) -> None:
    """Runtimes compute some models differently, above all those in eight bits."""
    from edgeopt.bundle.golden import answer_golden

    name, plugin = bundle.deployment.name, bundle.deployment.run.plugin
    if plugin:
        missing = f"{missing} of the plug-in {plugin}"
    try:
        wrong = answer_golden(bundle, session).sentence(f"On {session.backend} the bundle '{name}'")
        if wrong:
            raise BundleError(
                f"The backend {missing} of the bundle is not available here. {wrong}",
                f"Install {missing}, or run `edgeopt optimize` on this device.",
            )
    except BaseException:
        session.close()
        raise
    _log.warning(
        "'%s' was proved with %s, which is not available here; it runs with %s, so its speed is not proved.",
        *(name, missing, session.backend),
    )
