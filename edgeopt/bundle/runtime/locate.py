"""Locating the model that a path leads to, with the backend and options that run it."""

import logging
from dataclasses import dataclass
from pathlib import Path

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Available, Backend, Options
from edgeopt.backends.intended import intended, is_usable
from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.errors import BundleError, MissingError, ModelError, UsageError, pip_install
from edgeopt.graph.files.sniff import check_file
from edgeopt.text.tokenizer import FOLDER, text_folder

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Model file that a path leads to, with the backend and options that run it."""

    backend: Backend
    model: Path
    options: Options
    bundle: Bundle | None = None
    """Bundle that holds the model; a single file stays unpacked as long as this object lives."""
    replaces: str | None = None
    """The missing backend of the bundle that `backend` runs instead of."""

    @property
    def deployment(self) -> Deployment | None:
        return self.bundle.deployment if self.bundle is not None else None

    @property
    def text(self) -> Path:
        """Returns the folder of the tokenizer, which may not exist."""
        return text_folder(self.model) if self.bundle is None else self.bundle.folder / FOLDER

    @property
    def encoder(self) -> Path | None:
        """Returns the bundle or model of the encoder of this decoder, or None if there is none."""
        if self.bundle is not None:
            return self.bundle.encoder
        return encoder_beside(self.model)


def encoder_beside(decoder: Path) -> Path | None:
    """Returns the model of the encoder beside that of its decoder, or None if there is none."""
    beside = decoder.with_suffix(".encoder.onnx")
    return beside if beside.is_file() else None


def locate(
    path: Path, backend: str | None = None, options: Options | None = None, *, fallback: bool = False
) -> SessionPlace:
    """Returns the model that `load` would load, checked but not loaded yet."""
    if is_bundle(path) or path.is_dir():
        if backend or options:
            raise UsageError(
                f"The bundle '{path.name}' runs only with the backend and options it was proved with.",
                "To try others, load the model file inside it.",
            )
        bundle = read_bundle(path)
        run = bundle.deployment.run
        try:
            chosen = backend_named(run.backend)
        except UsageError as error:
            other = _available_reader(bundle.model) if run.plugin and fallback else None
            if other is not None:
                return SessionPlace(other, bundle.model, {}, bundle, replaces=run.backend)
            if run.plugin:
                raise MissingError(
                    f"The bundle '{path.name}' needs the plug-in {run.plugin}, which is not installed.",
                    f"Install it beside edgeopt: pip install {run.plugin.replace(' ', '==')}",
                ) from None
            raise BundleError(
                f"The bundle '{path.name}': {error.message}", "A newer edgeopt may support it."
            ) from None
        if fallback and not isinstance(chosen.available(), Available):
            other = _available_reader(bundle.model)
            if other is not None:
                return SessionPlace(other, bundle.model, {}, bundle, replaces=chosen.name)
        _require(chosen, f"The bundle '{path.name}'")
        return SessionPlace(chosen, bundle.model, run.options, bundle)
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
    return SessionPlace(chosen, path, options or {})


def _available_reader(model: Path) -> Backend | None:
    return next((b for b in _readers(model) if isinstance(b.available(), Available)), None)


def _readers(model: Path) -> list[Backend]:
    return [b for b in BACKENDS if model.suffix in b.formats or model.name.endswith(b.formats)]


def _first_available(model: Path) -> Backend:
    readers = _readers(model)
    if not readers:
        check_file(model)
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
            f"{who} needs the backend {backend.name}, which is not available: {found.reason}.",
            f"Install it with: {pip_install(found.extra)}" if found.extra else "See: edgeopt backends",
        )
