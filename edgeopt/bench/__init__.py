"""Measuring: trials as processes, contests in turns, statistics.

`edgeopt.bench(...)` is a function for those who use edgeopt, and this folder has its name: so the folder can be
called, and does what the function does.
"""

import sys
from collections.abc import Callable
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *arguments: object, **wishes: object) -> object:
        import edgeopt

        # The front door knows who measures; in this house that is far above.
        measure: Callable[..., object] = edgeopt.__getattr__("bench")  # type: ignore[assignment]
        return measure(*arguments, **wishes)


sys.modules[__name__].__class__ = _Callable
