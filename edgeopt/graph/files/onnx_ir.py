"""onnx-ir without sympy, until a size is computed with: importing that takes longer than reading most models."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

# The second only makes a table of functions of the first.
_LATER = ("sympy", "onnx_ir._symbolic_shapes")


def import_onnx_ir() -> ModuleType:
    """To be called before any other import of it; what loads later does so at its first use, for everyone."""
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        import onnx_ir
    finally:
        sys.meta_path.remove(finder)
    module: ModuleType = onnx_ir
    return module


class _Later:
    """Finds these modules as Python does, and has them executed when something is read from them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
