"""Plug-ins: packages with entry points and a manifest, which is read without importing their code."""

from edgeopt.plugins.manifest import INTERFACE, MANIFEST, READY, Offer, Plugin
from edgeopt.plugins.registry import installed_plugins, load_offer, offered

__all__ = ["INTERFACE", "MANIFEST", "READY", "Offer", "Plugin", "installed_plugins", "load_offer", "offered"]
