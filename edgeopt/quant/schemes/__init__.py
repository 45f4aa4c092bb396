"""Schemes: ways to compute a layer in fewer bits. Each is registered in `edgeopt/profiles/schema.py`."""

from importlib import import_module

from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.profiles import schema
from edgeopt.quant.schemes.base import Scheme, SchemeContext

__all__ = ["SCHEMES", "Scheme", "SchemeContext", "scheme_named"]


def _loaded(place: str) -> Scheme:
    module, _, name = place.partition(":")
    scheme: Scheme = getattr(import_module(f"{__name__}.{module}"), name)
    return scheme


SCHEMES = tuple(map(_loaded, schema.SCHEMES.values()))


def scheme_named(name: str) -> Scheme:
    """Returns the scheme of this name; raises a UsageError if there is none."""
    for scheme in SCHEMES:
        if scheme.name == name:
            return scheme
    raise UsageError(f"There is no scheme '{name}'.", nearest(name, list(schema.SCHEMES)))
