"""`edgeopt plugins`: the installed plug-ins, what they offer, and whether they can be used."""

import msgspec

from edgeopt.plugins import Plugin, installed_plugins


class PluginOffer(msgspec.Struct, frozen=True):
    kind: str
    """`pass`, `recipe`, `backend` or `importer`."""
    name: str
    """Name of the offer in reports and other commands."""
    title: str


class PluginLine(msgspec.Struct, frozen=True):
    name: str
    version: str
    state: str
    """`ready`, `wrong version`, `missing requirement` or `broken manifest`."""
    problem: str
    """Reason why the plug-in cannot be used; empty if it is ready."""
    hint: str
    """Step that solves the problem."""
    offers: tuple[PluginOffer, ...]


class PluginList(msgspec.Struct, frozen=True):
    plugins: tuple[PluginLine, ...]


def list_plugins() -> PluginList:
    """Lists the plug-ins by their manifests alone: none of their code is imported."""
    return PluginList(tuple(map(_line, installed_plugins())))


def _line(plugin: Plugin) -> PluginLine:
    offers = tuple(PluginOffer(one.kind, one.name, one.title) for one in plugin.offers)
    return PluginLine(plugin.name, plugin.version, plugin.state, plugin.problem, plugin.hint, offers)
