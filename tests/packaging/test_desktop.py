"""The desktop package: what goes into it, the files around the app, and where PyInstaller is, the app itself."""

import ast
import configparser
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from PySide6.QtSvg import QSvgRenderer

from edgeopt.version import __version__
from edgeopt_gui.application import NAME
from tests.structure.imports import imports, modules

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging" / "desktop"
SAMPLE = ROOT / "edgeopt" / "data" / "demo" / "digits_cnn"
PACKAGE_MB, COMPRESSION = 150, 1

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")


@pytest.fixture(scope="module")
def build():
    specification = importlib.util.spec_from_file_location("build_desktop", FOLDER / "build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def tree(build, tmp_path):
    """All that is packed, with an app of two files."""
    tree = tmp_path / "tree"
    build.lay_out(tree)
    app = tree / "opt" / "edgeopt-desktop"
    (app / "_internal").mkdir(parents=True)
    (app / "edgeopt-run").write_bytes(b"\x7fELF\0GLIBC_2.4\0GLIBC_2.34\0")
    (app / "_internal" / "lib.so").write_bytes(b"\x7fELF\0GLIBC_2.36\0")
    return tree


@pytest.mark.parametrize(
    ("name", "source", "kept"),
    [
        ("PySide6/Qt/lib/libQt6Widgets.so.6", "/venv/libQt6Widgets.so.6", True),
        ("PySide6/Qt/lib/libQt6Quick.so.6", "/venv/libQt6Quick.so.6", False),
        ("PySide6/Qt/plugins/platforms/libqxcb.so", "/venv/libqxcb.so", True),
        ("PySide6/Qt/plugins/platforms/libqwayland.so", "/venv/libqwayland.so", True),
        ("PySide6/Qt/plugins/sqldrivers/libqsqlite.so", "/venv/libqsqlite.so", False),
        ("PySide6/Qt/translations/qtbase_de.qm", "/venv/qtbase_de.qm", False),
        ("libX11.so.6", "/lib/x86_64-linux-gnu/libX11.so.6", False),
        ("libzstd.so.1", "/usr/lib/x86_64-linux-gnu/libzstd.so.1", False),
        ("libssl.so.3", "/lib/x86_64-linux-gnu/libssl.so.3", True),
        ("onnx/backend/test/data/model.onnx", "/venv/model.onnx", False),
        ("numpy-2.0.dist-info/licenses/LICENSE.txt", "/venv/LICENSE.txt", True),
        ("numpy-2.0.dist-info/direct_url.json", "/venv/direct_url.json", False),
        ("edgeopt/commands/export/files/cpp/tensor.hpp", "/checkout/tensor.hpp", True),
    ],
)
def test_only_what_the_app_uses_goes_in(build, name, source, kept):
    assert build.contents.kept(name, source) is kept


def test_the_parts_of_qt_that_the_app_imports_are_not_left_out(build):
    used = {
        ".".join(each.name.split(".")[:2])
        for module, path in modules()
        if module.startswith("edgeopt_gui")
        for each in imports(module, path.read_text(), path.name == "__init__.py")
        if each.name.startswith("PySide6.")
    }
    assert {"PySide6.QtWidgets", "PySide6.QtSvg"} <= used
    assert used & set(build.contents.EXCLUDED) == set()
    assert {part.removeprefix("PySide6.Qt") for part in used} <= build.contents.QT_LIBRARIES


# Imports everything that the app can, with the modules that the package lacks hidden.
IMPORT = """
import importlib, json, sys
absent, wanted = json.loads(sys.argv[1])
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent)
failed = []
for name in wanted:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {error}")
print(json.dumps([failed, [name for name in sys.modules if name.startswith("PySide6.Qt")]]))
"""


@pytest.mark.slow  # imports everything
def test_what_is_left_out_is_needed_by_no_import(build):
    absent = build.contents.EXCLUDED
    found = [(name, path) for name, path in modules() if name.startswith(("edgeopt.", "edgeopt_gui."))]
    own = [name for name, _ in found if not name.endswith("__main__") and not name.startswith(tuple(absent))]
    theirs = {
        each.name.rpartition(".")[0] or each.name
        for name, path in found
        for each in imports(name, path.read_text(), path.name == "__init__.py")
        if each.name.startswith(
            ("onnx", "onnx_ir", "onnxscript", "scipy", "PIL", "cryptography", "websockets", "pyqtgraph")
        )
    }
    command = [sys.executable, "-c", IMPORT, json.dumps([absent, [*own, *sorted(theirs)]])]
    environment = {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gui'}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    failed, qt = json.loads(done.stdout.splitlines()[-1])
    assert failed == []
    assert {name.removeprefix("PySide6.Qt") for name in qt} <= build.contents.QT_LIBRARIES


@pytest.mark.parametrize("system", ["linux", "win32", "darwin"])
def test_the_specification_makes_what_each_system_starts(build, monkeypatch, tmp_path, system):
    made, nothing = [], SimpleNamespace(pure=[], scripts=[], binaries=[], datas=[])

    def step(kind):
        return lambda *_, **options: made.append((kind, options)) or nothing

    steps = {name: step(name) for name in ("Analysis", "PYZ", "EXE", "COLLECT", "BUNDLE")}
    stub = SimpleNamespace(collect_submodules=lambda _: [], copy_metadata=lambda _: [], **steps)
    for module in ("building.api", "building.build_main", "building.osx", "utils.hooks"):
        monkeypatch.setitem(sys.modules, f"PyInstaller.{module}", stub)
    monkeypatch.setattr(sys, "platform", system)
    runpy.run_path(str(FOLDER / "edgeopt.spec"), {"SPECPATH": str(FOLDER), "workpath": str(tmp_path)})
    programs = {options["name"]: options for name, options in made if name == "EXE"}
    assert list(programs) == list(build.contents.programs())
    assert all(options["console"] == (name != "edgeopt-gui") for name, options in programs.items())
    if system != "linux":
        assert Path(programs["edgeopt-gui"]["icon"]).stat().st_size > 10_000
    if system == "win32":
        resource = Path(programs["edgeopt"]["version"]).read_text()
        assert f"'FileVersion', '{__version__}'" in ast.unparse(ast.parse(resource, mode="eval"))
    bundles = [options for name, options in made if name == "BUNDLE"]
    assert [each["version"] for each in bundles] == [__version__] * (system == "darwin")
    assert not any(each["info_plist"]["LSBackgroundOnly"] for each in bundles)


def test_the_workflow_builds_and_starts_the_app_on_three_systems():
    text = (ROOT / ".github" / "workflows" / "desktop.yml").read_text()
    assert "has not run" in text.splitlines()[0]
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert {each.partition("-")[0] for each in job["strategy"]["matrix"]["os"]} == {"ubuntu", "windows", "macos"}
    assert job["runs-on"] == "${{ matrix.os }}"
    assert [step for step in job["steps"] if ("uses" in step) == ("run" in step)] == []
    commands = " ".join(step.get("run", "") for step in job["steps"])
    named = re.findall(r"(?<!\S)(?:packaging|tests|edgeopt)/[\w/.]+", commands)
    assert len(named) == 3
    assert all((ROOT / each).exists() for each in named)


def test_files_that_no_import_finds_go_in(build):
    found = {f"{folder}/{Path(path).name}" for path, folder in build.contents.data()}
    assert {
        *("edgeopt/_profiles/generic-cpu.toml", "edgeopt/data/demo/digits_cnn.onnx", "edgeopt/diagram/page.js"),
        *("edgeopt/commands/export/files/runner.py", "edgeopt_gui/theme/icons/open.svg"),
        "onnxruntime/ThirdPartyNotices.txt",
    } <= found


def test_the_package_and_its_page_name_the_extras_that_are_in_it(build):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(build.contents.EXTRAS) <= set(known)
    control = " ".join((FOLDER / "control").read_text().split())
    page = (ROOT / "docs" / "gui.md").read_text()
    for text, begin in ((control, "with the extras "), (page, "and the extras ")):
        said = re.sub(r"\(.*?\)", "", text.partition(begin)[2].partition(".")[0])
        assert set(re.findall(r"\w+", said)) - {"and"} == set(build.contents.EXTRAS)


@needs_dpkg
def test_the_package_holds_both_programs_and_what_menus_need(build, tree, tmp_path):
    package = build.pack(tree, tmp_path / "dist", 0)
    done = subprocess.run(["dpkg-deb", "--contents", str(package)], capture_output=True, text=True, check=True)
    rows = {line.split()[5].removeprefix("."): line.split() for line in done.stdout.splitlines()}
    for path in (
        *("/usr/bin/edgeopt", "/usr/bin/edgeopt-gui", "/usr/share/applications/edgeopt.desktop"),
        *("/usr/share/mime/packages/edgeopt.xml", "/usr/share/metainfo/edgeopt.metainfo.xml"),
        *("/usr/share/icons/hicolor/scalable/apps/edgeopt.svg", "/usr/share/man/man1/edgeopt.1.gz"),
        *("/usr/share/bash-completion/completions/edgeopt", "/usr/share/doc/edgeopt-desktop/copyright"),
    ):
        assert path in rows
    assert {row[1] for row in rows.values()} == {"root/root"}
    assert rows["/usr/bin/edgeopt-gui"][-1] == "/opt/edgeopt-desktop/edgeopt-run"
    assert rows["/opt/edgeopt-desktop/edgeopt-run"][0] == "-rwxr-xr-x"
    field = ["dpkg-deb", "--field", str(package), "Depends"]
    assert "libc6 (>= 2.36)," in subprocess.run(field, capture_output=True, text=True, check=True).stdout


def test_nothing_around_the_app_names_the_place_where_it_was_built(tree):
    texts = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file() and path.suffix != ".gz"}
    assert [path for path, text in texts.items() if str(ROOT).encode() in text] == []


def test_the_menu_entry_opens_models_and_bundles_and_belongs_to_the_window(build, tree):
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(tree / "usr/share/applications/edgeopt.desktop")
    values = entry["Desktop Entry"]
    assert values["Exec"].split()[0] in build.LINKS
    # A compositor finds the icon of a window by these names.
    assert (values["StartupWMClass"], values["Icon"]) == (NAME, NAME)
    types = ET.parse(tree / "usr/share/mime/packages/edgeopt.xml").getroot()  # noqa: S314 - our own
    space = "{http://www.freedesktop.org/standards/shared-mime-info}"
    globs = {kind.get("type"): kind.find(f"{space}glob").get("pattern") for kind in types}
    assert set(values["MimeType"].split(";")) - {""} == set(globs)
    assert set(globs.values()) == {"*.onnx", "*.edgeopt"}


def test_the_icon_can_be_drawn(tree):
    assert QSvgRenderer(str(tree / "usr/share/icons/hicolor/scalable/apps/edgeopt.svg")).isValid()


def test_the_metainfo_has_the_version(tree):
    component = ET.parse(tree / "usr/share/metainfo/edgeopt.metainfo.xml").getroot()  # noqa: S314 - our own
    assert component.find("releases/release").get("version") == __version__
    assert component.find("launchable").text == "edgeopt.desktop"


@pytest.mark.skipif(shutil.which("appstreamcli") is None, reason="appstreamcli is not installed")
def test_appstream_accepts_the_metainfo(tree):
    command = ["appstreamcli", "validate", "--no-net", str(tree / "usr/share/metainfo/edgeopt.metainfo.xml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_without_pyinstaller_it_says_what_it_needs(build, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(build, "find_spec", lambda _name: None)
    assert build.main([str(tmp_path)]) == 1
    assert "pip install --group desktop" in capsys.readouterr().err


# A person's way: open a model and data, search, look at the result.
JOURNEY = """
import json, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from edgeopt_gui import main
from edgeopt_gui.window import Window
model, data, picture = sys.argv[1:]
make = Window.__init__
def journey(window):
    while window.page("model").state != "content":
        yield
    window.open_paths([Path(data)])
    while window.shown_page.objectName() != "page-optimize" or window.context.jobs.jobs:
        yield
    optimize = window.shown_page
    optimize.start()
    print(json.dumps(optimize.state), flush=True)
    while optimize.state == "busy":
        yield
    window.grab().save(picture)
    for key in ("device", "graph", "compare", "live"):
        window.show_page(key)
        yield
    while "edgeopt_gui.pages.live.view" not in sys.modules:
        yield
    print(json.dumps([optimize.state, str(window.context.bundle)]), flush=True)
def made(window, context, *more):
    context.settings.keep("optimize.time-limit-s", 5)
    make(window, context, *more)
    steps, timer = journey(window), QTimer(window)
    def step():
        if next(steps, "over") == "over":
            timer.stop()
            window.quit_now()
    timer.timeout.connect(step)
    timer.start(50)
Window.__init__ = made
sys.exit(main.main([model]))
"""


@pytest.fixture(scope="module")
def app(build, tmp_path_factory):
    """The app and its package, as `make desktop` builds them."""
    if importlib.util.find_spec("PyInstaller") is None:
        pytest.skip("PyInstaller is not installed: pip install --group desktop -c constraints.txt")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    folder = tmp_path_factory.mktemp("desktop")
    command = [sys.executable, str(FOLDER / "build.py"), str(folder), "--compression", str(COMPRESSION)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / build.NAME


def alone(folder, *command):
    """Runs it with nothing else to be found."""
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "QT_QPA_PLATFORM": "offscreen", "LANG": "C.UTF-8"}
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_app_is_small_and_names_no_place_of_its_build(app):
    (package,) = app.parent.glob("*.deb")
    assert package.stat().st_size <= PACKAGE_MB * 1_000_000
    names = {path.name for path in (app / "_internal").iterdir()}
    assert names & {"openvino", "nncf", "sklearn", "edgeopt_agent"} == set()
    files = [path for path in app.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if str(ROOT).encode() in path.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_its_command_line_measures_in_children_without_qt(app, tmp_path):
    done = alone(tmp_path, app / "edgeopt", "--version")
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["edgeopt", __version__])
    done = alone(tmp_path, app / "edgeopt", "bench", f"{SAMPLE}.onnx", "--time-limit", "2", "--json")
    assert done.returncode == 0, done.stderr
    shown = "import sys; print(sorted(name for name in sys.modules if name.startswith('PySide6')))"
    assert alone(tmp_path, app / "edgeopt-run", "-c", shown).stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_opens_a_model_and_searches_to_the_end(app, tmp_path):
    picture = tmp_path / "picture.png"
    done = alone(tmp_path, app / "edgeopt-run", "-c", JOURNEY, f"{SAMPLE}.onnx", f"{SAMPLE}.npz", picture)
    assert done.returncode == 0, done.stderr
    begun, (state, bundle) = map(json.loads, done.stdout.splitlines())
    assert (begun, state) == ("busy", "content")
    assert bundle.startswith(str(tmp_path))
    assert "Traceback" not in done.stderr
    assert picture.stat().st_size > 10_000  # a window, not nothing
