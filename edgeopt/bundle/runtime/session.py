"""`edgeopt.load`: a bundle or a model, ready to run."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Array, Available, Backend, Feeds, Options, Placement, TensorInfo
from edgeopt.backends.base import Session as Loaded
from edgeopt.backends.intended import intended, is_usable
from edgeopt.backends.strictness import fallback
from edgeopt.bundle.deployment import Deployment, Processing
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.errors import BundleError, EdgeoptError, MissingError, ModelError, UsageError, no_outputs
from edgeopt.graph.files.sniff import check_file

if TYPE_CHECKING:
    from edgeopt.bundle.processing.run import Processor

_log = logging.getLogger(__name__)


class Session:
    """A loaded deployment. `run(feeds)` takes arrays by input name and returns arrays by output name.

    A model with one input also takes its array alone: `run(array)`. Results stay valid after the next run. `run`
    is the model alone; `process(raw)` also does what the bundle has for before and after it.
    """

    __slots__ = ("_close", "_held", "_loaded", "backend", "deployment", "inputs", "outputs", "processor", "run")

    def __init__(
        self,
        backend: Backend,
        model: Path,
        options: Options,
        deployment: Deployment | None = None,
        *,
        strict: bool = False,
        custom_ops: tuple[str, ...] = (),
        held: Bundle | None = None,
    ) -> None:
        """`held`: the bundle that the model lies in, which stays unpacked until the session is closed."""
        loaded = backend.load(model, options, strict=strict, custom_ops=custom_ops)
        self.backend = backend.name
        self.deployment = deployment
        self.inputs: tuple[TensorInfo, ...] = loaded.inputs
        self.outputs: tuple[TensorInfo, ...] = loaded.outputs
        self.run = _by_name(loaded)
        self._close = loaded.close
        self._loaded = loaded
        self._held = held
        self.processor = _processor(deployment, held)

    @property
    def processing(self) -> Processing | None:
        """What `process` does around the model; None where that is nothing."""
        return self.deployment.processing if self.deployment is not None else None

    def process(self, raw: Feeds) -> dict[str, Array]:
        """Pre-processing, the model, post-processing; without these the same as `run`."""
        processor = self.processor
        return self.run(raw) if processor is None else processor.after(self.run(processor.before(raw)))

    @property
    def placement(self) -> Placement | None:
        """Where its nodes run now: OpenVINO's AUTO starts on the processor and moves on."""
        return self._loaded.placement

    def close(self) -> None:
        """Gives the runtime's memory back; `run` refuses afterwards."""
        self._close()
        if self.processor is not None:
            self.processor.close()
        self._held = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _by_name(loaded: Loaded) -> Callable[[Feeds | Array], dict[str, Array]]:
    """The backend's own `run`, which takes arrays by name, behind a look at the type, well below a microsecond."""
    run, names = loaded.run, [each.name for each in loaded.inputs]

    def named(feeds: Feeds | Array) -> dict[str, Array]:
        if type(feeds) is dict or isinstance(feeds, Mapping):
            return run(feeds)
        if len(names) == 1:
            return run({names[0]: feeds})
        raise UsageError(
            f"The model has {len(names)} inputs, so an array must say which it is for.",
            f"Give a dict of arrays, by the names: {', '.join(names) or 'none'}.",
        )

    return named


def _processor(deployment: Deployment | None, held: Bundle | None) -> "Processor | None":
    """Imported for those who have some: each trial and each start of a device pays for what is imported here."""
    if deployment is None or held is None or deployment.processing is None:
        return None
    from edgeopt.bundle.processing.run import Processor

    return Processor(deployment.processing, held.folder, deployment.inputs)


@dataclass(frozen=True, slots=True)
class Place:
    """What a path leads to: a model file, and what is to run it."""

    backend: Backend
    model: Path
    options: Options
    bundle: Bundle | None = None
    """Where the model lies in one; a single file stays unpacked as long as this is held."""

    @property
    def deployment(self) -> Deployment | None:
        return self.bundle.deployment if self.bundle is not None else None


def load(
    path: str | Path,
    backend: str | None = None,
    options: Options | None = None,
    *,
    strict: bool = False,
    custom_ops: Sequence[str | Path] = (),
) -> Session:
    """Loads a bundle (checked first, with the backend and options it was proved with) or a plain model.

    Nodes that fall back to another provider or device are in `Session.placement` and in the log; `strict` refuses
    them. `custom_ops` are libraries with operators of your own, for models only.
    """
    place = locate(Path(path), backend, options)
    if place.deployment is not None and custom_ops:
        raise UsageError(
            "A bundle takes no libraries of custom operators: what it runs must be all in it, checked and signed.",
            "Load the model file itself with them.",
        )
    libraries = tuple(str(each) for each in custom_ops)
    try:
        session = Session(
            place.backend,
            place.model,
            place.options,
            place.deployment,
            strict=strict,
            custom_ops=libraries,
            held=place.bundle,
        )
    except EdgeoptError as error:
        if place.bundle is not None and place.bundle.held is not None:
            place.bundle.held.retell(error)
        raise
    if not session.outputs:
        session.close()
        raise no_outputs(place.model.name)
    said = fallback(session.placement)
    if said is not None:
        _log.warning("'%s': %s.", Path(path).name, said)
    return session


def locate(path: Path, backend: str | None = None, options: Options | None = None) -> Place:
    """What `load` would load, checked but not loaded yet."""
    if is_bundle(path) or path.is_dir():
        if backend or options:
            raise UsageError(
                f"The bundle '{path.name}' runs with the backend and options that it was proved with.",
                "Load the model file inside it to try others.",
            )
        bundle = read_bundle(path)
        run = bundle.deployment.run
        try:
            chosen = backend_named(run.backend)
        except UsageError as error:
            raise BundleError(
                f"The bundle '{path.name}': {error.message}", "A newer edgeopt may know it."
            ) from None
        _require(chosen, f"The bundle '{path.name}'")
        return Place(chosen, bundle.model, run.options, bundle)
    if not path.exists():
        raise ModelError(f"There is no model or bundle at '{path}'.", "Check the path.")
    made_for = intended(path) if backend is None and not options else None
    if made_for is not None and is_usable(made_for.backend):
        backend, options = made_for.backend, dict(made_for.options)
    chosen = backend_named(backend) if backend else _first_available(path)
    if made_for is not None and backend is None:
        _log.warning("'%s' was made for %s; it runs on %s here.", path.name, made_for.backend, chosen.name)
    _require(chosen, f"Running '{path.name}'")
    if path.suffix == ".onnx":
        check_file(path)  # a runtime would only say that its parser failed
    return Place(chosen, path, options or {})


def _first_available(model: Path) -> Backend:
    readers = [b for b in BACKENDS if model.suffix in b.formats or model.name.endswith(b.formats)]
    if not readers:
        # The null backend's own format is for tests: nobody has a model in it.
        known = " and ".join(sorted({f for b in BACKENDS if b.package for f in b.formats}))
        raise ModelError(f"No backend reads '{model.name}'; they read {known}.", "Export the model as ONNX.")
    for backend in readers:
        if isinstance(backend.available(), Available):
            return backend
    return readers[0]


def _require(backend: Backend, who: str) -> None:
    found = backend.available()
    if not isinstance(found, Available):
        raise MissingError(
            f"{who} needs the backend {backend.name}, which cannot be used here: {found.reason}.",
            f"Install it with: pip install 'edgeopt[{found.extra}]'" if found.extra else "See: edgeopt backends",
        )
