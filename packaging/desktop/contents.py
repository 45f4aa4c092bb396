"""What the desktop package holds, and what of it PyInstaller finds and no part of edgeopt uses."""

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from edgeopt.version import __version__

ROOT = Path(__file__).parents[2]
EXTRAS = ("optimize", "cpu", "gui", "fleet", "images", "sign")

# Kept as files: edgeopt digests its own code for its cache, onnxscript reads the source of its functions.
AS_FILES = ("edgeopt", "edgeopt_gui", "onnxscript", "onnx_ir")

# Imported by name, or by a child process only.
PACKAGES = ("edgeopt", "edgeopt_gui", "onnxscript.rewriter", "onnxscript.optimizer", "websockets.sync")
MODULES = ("PySide6.QtOpenGL", "PySide6.QtOpenGLWidgets")  # pyqtgraph imports them by a name that it computes

# What the extra `optimize` brings and needs OpenVINO for; the development tools; what libraries can do without.
EXCLUDED = (
    *("openvino", "nncf", "sklearn", "joblib", "networkx", "pydot", "pandas", "matplotlib", "torch"),
    *("edgeopt_agent", "grpc", "tritonclient", "gevent", "aiohttp", "uvicorn", "starlette", "uvloop"),
    *("pytest", "_pytest", "py", "hypothesis", "mypy", "setuptools", "pip", "pkg_resources", "IPython"),
    *("distutils", "tkinter", "curses", "readline", "pydoc_data", "lib2to3", "idlelib", "sympy.testing"),
    *("PySide6.QtNetwork", "PySide6.QtTest", "PySide6.QtQml"),
    *("PySide6.QtQuick", "PySide6.QtPrintSupport", "PySide6.QtSql", "PySide6.QtDesigner", "PySide6.QtUiTools"),
    *("pyqtgraph.opengl", "pyqtgraph.examples", "pyqtgraph.console", "pyqtgraph.flowchart", "pyqtgraph.canvas"),
)

QT_LIBRARIES = frozenset({
    *("Core", "Gui", "Widgets", "Svg", "DBus", "XcbQpa", "WaylandClient", "WaylandEglClientHwIntegration"),
    *("OpenGL", "OpenGLWidgets", "WlShellIntegration"),
})  # fmt: skip
QT_PLUGINS = frozenset({
    *("platforms/libqxcb.so", "platforms/libqwayland.so", "platforms/libqwayland-generic.so"),
    *("platforms/libqwayland-egl.so", "platforms/libqoffscreen.so", "platforms/libqminimal.so"),
    *("iconengines/libqsvgicon.so", "imageformats/libqsvg.so", "imageformats/libqjpeg.so"),
    *("platforminputcontexts/libcomposeplatforminputcontextplugin.so", "platformthemes/libqxdgdesktopportal.so"),
    "platforminputcontexts/libibusplatforminputcontextplugin.so",
    *("xcbglintegrations/libqxcb-egl-integration.so", "xcbglintegrations/libqxcb-glx-integration.so"),
    *("wayland-decoration-client/libbradient.so", "wayland-decoration-client/libadwaita.so"),
    "wayland-shell-integration/libxdg-shell.so",
    "wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
})  # fmt: skip

# Of the libraries of the system, only what Python itself is linked to: its versions differ between systems.
_PYTHON_LIBRARIES = (
    *("libpython3", "libssl.", "libcrypto.", "libffi.", "libbz2.", "liblzma.", "libz.", "libsqlite3."),
    *("libuuid.", "libexpat."),
)
_OF_THE_SYSTEM = re.compile(r"(/usr)?/lib(64|/[^/]*-linux-gnu)?/[^/]+")
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|testing/data|translations|include|qml|metatypes|typesystems|glue)/"
    r"|\.(pyi|pxd|pyx|h|hpp|a|lib|qm|cmake)$"
    r"|^onnxruntime/(tools|transformers)/"
    r"|^onnx/(backend/test|reference/ops_optimized/tests)/"
    r"|direct_url\.json$|dist-info/(RECORD|INSTALLER|REQUESTED)$"
)
# The files of `edgeopt export`, which end like what is left out.
_ALWAYS = re.compile(r"^edgeopt/")


def kept(name: str, source: str) -> bool:
    """Whether a file goes into the package: its path there, and where it is now."""
    name = name.replace("\\", "/")
    if _ALWAYS.match(name):
        return True
    if sys.platform != "linux":  # what else Qt needs there has not been tried
        return not _LEFT_OUT.search(name)
    if _OF_THE_SYSTEM.fullmatch(source):
        return Path(source).name.startswith(_PYTHON_LIBRARIES)
    if found := re.search(r"(^|/)libQt6([A-Za-z]+)\.so", name):
        return found[2] in QT_LIBRARIES
    if found := re.search(r"PySide6/Qt/plugins/(.+)$", name):
        return found[1] in QT_PLUGINS
    return not _LEFT_OUT.search(name)


def distributions(modules: Iterable[str]) -> list[str]:
    """The packages that these modules belong to: versions are shown and compared, licences are required."""
    homes = metadata.packages_distributions()
    tops = {module.partition(".")[0] for module in modules}
    found = {name for top in tops for name in homes.get(top, ())}
    return sorted(found - {"edgeopt", "pyinstaller", "pyinstaller-hooks-contrib"})


def programs() -> tuple[str, ...]:
    """Returns the programs of the folder; on Linux one, with links, elsewhere three, the app's first."""
    return ("edgeopt-run",) if sys.platform == "linux" else ("edgeopt-gui", "edgeopt", "edgeopt-run")


def draw_icon(file: Path) -> str:
    """Draws the icon as a picture, which PyInstaller converts with Pillow."""
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    picture = QImage(1024, 1024, QImage.Format.Format_ARGB32)
    picture.fill(0)
    painter = QPainter(picture)
    QSvgRenderer(str(Path(__file__).with_name("edgeopt.svg"))).render(painter)
    painter.end()
    picture.save(str(file))
    return str(file)


def write_version(file: Path, program: str) -> str:
    """Writes the version resource of a Windows program, in PyInstaller's notation."""
    numbers = tuple(int(each) for each in [*re.findall(r"\d+", __version__), 0, 0, 0, 0][:4])
    names = {"ProductName": "edgeopt", "FileDescription": program, "FileVersion": __version__}
    rows = ", ".join(f"StringStruct({name!r}, {text!r})" for name, text in names.items())
    file.write_text(
        f"VSVersionInfo(FixedFileInfo({numbers}, {numbers}), "
        f"[StringFileInfo([StringTable('040904B0', [{rows}])]), "
        "VarFileInfo([VarStruct('Translation', [1033, 1200])])])",
        encoding="utf-8",
    )
    return str(file)


def data() -> list[tuple[str, str]]:
    """Files that no import finds, with the folder where each goes."""
    found = [(path, path.parent.relative_to(root)) for root, path in _own() if path.suffix != ".py"]
    files = ROOT / "edgeopt" / "commands" / "export" / "files"
    found += [(path, path.parent.relative_to(ROOT)) for path in files.glob("*.py")]
    found += [(path, Path("edgeopt/_profiles")) for path in (ROOT / "profiles").glob("*.toml")]
    # Its wheel has them beside the code, not with its metadata.
    runtime = find_spec("onnxruntime")
    for folder in (runtime.submodule_search_locations or ()) if runtime else ():
        found += [(Path(folder, name), Path("onnxruntime")) for name in ("LICENSE", "ThirdPartyNotices.txt")]
    return [(str(path), str(folder)) for path, folder in sorted(set(found))]


def _own() -> list[tuple[Path, Path]]:
    roots = ((ROOT, ROOT / "edgeopt"), (ROOT / "gui", ROOT / "gui" / "edgeopt_gui"))
    return [
        (root, path)
        for root, package in roots
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
