"""Backends of plug-ins: listed from their manifests, and imported only by the process that loads a model."""

from pathlib import Path

import msgspec

from edgeopt.backends.base import Available, Backend, Coverage, Options, Session
from edgeopt.backends.options import read_options
from edgeopt.errors import ModelError
from edgeopt.hw.device import Unavailable
from edgeopt.plugins import Offer, load_offer, offered


class NoOptions(msgspec.Struct, frozen=True):
    """The empty options of a plug-in's backend."""


def plugin_backends() -> tuple[Backend, ...]:
    """Returns the backends of all plug-ins, including those that cannot be used."""
    return tuple(map(_backend, offered("backend")))


def plugin_of(backend: str) -> str:
    """Returns the plug-in of a backend with its version (`edgeopt-example 1.0`); empty for edgeopt's own."""
    return next((offer.source for offer in offered("backend") if offer.name == backend), "")


def _backend(offer: Offer) -> Backend:
    def available() -> Available | Unavailable:
        return Unavailable(offer.problem) if offer.problem else Available(offer.version)

    def supports(path: Path) -> Coverage:
        return _loaded(offer).supports(path)

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        read_options(NoOptions, options, offer.name)
        return _loaded(offer).load(path, options, strict=strict, custom_ops=custom_ops)

    return Backend(
        name=offer.name,
        title=offer.title,
        formats=offer.suffixes,
        available=available,
        supports=supports,
        load=load,
        options=NoOptions,
        package=offer.place.partition(":")[0].partition(".")[0],
    )


def _loaded(offer: Offer) -> Backend:
    found = load_offer(offer)
    if not isinstance(found, Backend):
        raise ModelError(
            f"The plug-in {offer.plugin} offers '{offer.name}' as a backend, which is a {type(found).__name__}.",
            "Its author must let the entry point name an edgeopt.backends.base.Backend.",
        )
    return found
