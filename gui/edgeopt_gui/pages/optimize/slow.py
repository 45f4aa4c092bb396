"""The slow parts of the page: with them come numpy and the search, which the first window does not wait for."""

import importlib
import threading
from types import ModuleType

_ONE_AT_A_TIME = threading.Lock()


def slow(name: str) -> ModuleType:
    """Imports a module. Of modules that import each other, two threads at once would see some half made."""
    with _ONE_AT_A_TIME:
        return importlib.import_module(name)


def core() -> ModuleType:
    """Returns the module with the core's vocabulary and checks of settings."""
    return slow("edgeopt_gui.pages.optimize.core")


def result() -> ModuleType:
    """Returns the module that describes an outcome."""
    return slow("edgeopt_gui.pages.optimize.result")


def saving() -> ModuleType:
    """Returns the module that copies bundles."""
    return slow("edgeopt_gui.pages.optimize.saving")
