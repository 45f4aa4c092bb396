"""Plants packages with the metadata of installed ones on the search path: real plug-ins, without pip."""

import numpy as np
import pytest

from tests.conftest import write_onnx

GROUPS = {"pass": "passes", "recipe": "recipes", "backend": "backends", "importer": "importers"}
_PAIRS = 16


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Installs a package with its code; offers are (kind, name, place in the package, more lines)."""
    site = tmp_path / "site"
    site.mkdir()

    def install(name, code, *offers, interface=1, needs=(), manifest=None):
        package = site / name.replace("-", "_")
        package.mkdir()
        (package / "__init__.py").write_text(code)
        text = f'interface = {interface}\nname = "{name}"\nversion = "1.0"\nneeds = {list(needs)}\n'
        groups = {}
        for kind, short, place, *more in offers:
            text += "\n".join(
                (f"[[{GROUPS[kind]}]]", f'name = "{short}"', f'title = "planted {short}"', *more, "")
            )
            groups.setdefault(kind, []).append(f"{short} = {package.name}{place}\n")
        (package / "edgeopt-plugin.toml").write_text(text if manifest is None else manifest)
        metadata = site / f"{package.name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"[edgeopt.{GROUPS[kind]}]\n{''.join(entries)}" for kind, entries in groups.items()]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
        return package

    monkeypatch.syspath_prepend(str(site))
    return install


@pytest.fixture
def no_plugin_code(tmp_path):
    """At the end of a test, nothing of a planted package was imported into this process."""
    yield
    import sys

    places = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    assert [place for place in places if place.startswith(str(tmp_path / "site"))] == []


@pytest.fixture(scope="session")
def halving(models):
    """Halves its input and then does much that cancels out, which no pass of edgeopt knows: 0.5 * x in the end."""
    nodes, last = [("Mul", ["x", "half"], ["h"], {})], "h"
    for number in range(_PAIRS):
        nodes += [("Atanh", [last], [f"a{number}"], {}), ("Tanh", [f"a{number}"], [f"t{number}"], {})]
        last = f"t{number}"
    nodes[-1] = ("Tanh", [nodes[-1][1][0]], ["y"], {})
    half = {"half": np.float32([0.5])}
    return write_onnx(models / "halving.onnx", nodes, half, {"x": [1, 4096]}, {"y": [1, 4096]})


@pytest.fixture(scope="session")
def halving_data(models):
    path = models / "halving.npz"
    np.savez(path, x=np.random.default_rng(0).uniform(-1, 1, (16, 4096)).astype(np.float32))
    return path
