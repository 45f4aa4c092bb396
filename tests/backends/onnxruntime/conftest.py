import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from edgeopt.backends.onnxruntime import provider


@pytest.fixture
def distributions(monkeypatch):
    """`distributions({"onnxruntime-gpu": "1.31.1"})` is what is installed, `files` where one came from."""

    def pretend(versions, files=(), module=True):
        found = {
            name: SimpleNamespace(
                name=name,
                version=version,
                read_text=lambda _, name=name: (
                    '{"url": "file:///w.whl", "archive_info": {}}' if name in files else None
                ),
            )
            for name, version in versions.items()
        }
        spec = ModuleSpec("onnxruntime", None, origin="onnxruntime/__init__.py") if module else None
        monkeypatch.setattr(provider, "find_spec", lambda name: spec if name == "onnxruntime" else None)
        monkeypatch.setattr(provider, "_distribution", found.get)

    return pretend


@pytest.fixture
def system(monkeypatch):
    return lambda name: monkeypatch.setattr(provider.platform, "system", lambda: name)


@pytest.fixture
def providers(monkeypatch):
    """`providers("CUDAExecutionProvider")` is what the runtime says that it was built with."""

    def pretend(*names):
        fake = SimpleNamespace(
            __version__="1.31.1", get_available_providers=lambda: [*names, "CPUExecutionProvider"]
        )
        monkeypatch.setitem(sys.modules, "onnxruntime", fake)

    return pretend
