"""Measuring: trials as processes, contests in turns, statistics.

`edgeopt.bench(...)` is a function for those who use edgeopt, and this folder has its name: so the folder can be
called, and does what `edgeopt.measuring.api.bench` does.
"""

import sys
from collections.abc import Callable
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *arguments: object, **wishes: object) -> object:
        # Not above: what measures stands on this folder, and few who import it measure.
        from edgeopt.measuring import api

        measure: Callable[..., object] = api.bench
        return measure(*arguments, **wishes)


sys.modules[__name__].__class__ = _Callable
