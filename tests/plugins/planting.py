"""Plants packages with the metadata of installed ones on the search path: real plug-ins, without pip."""

import pytest

GROUPS = {"pass": "passes", "recipe": "recipes", "backend": "backends", "importer": "importers"}


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Installs a package with its code; offers are (kind, name, place in the package, more lines)."""

    def install(name, code, *offers, interface=1, needs=(), manifest=None):
        # A folder of its own, because what is on a search path is looked up once.
        site = tmp_path / "site" / name
        package = site / name.replace("-", "_")
        package.mkdir(parents=True)
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
        monkeypatch.syspath_prepend(str(site))
        return package

    return install
