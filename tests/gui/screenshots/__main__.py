"""python -m tests.gui.screenshots OUT [PAGE…]: contact sheets of pages, driven by the real command line."""

import argparse
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from PySide6.QtCore import QMessageLogContext, QSettings, QSize, QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme
from tests.gui.screenshots.scenes import SCENES, Scenes
from tests.gui.screenshots.sheet import contact_sheet
from tests.gui.screenshots.stage import Stage

_THEMES = ("light", "dark")
_BEST = "full"
_SIZES = "1024x700,1280x800,1920x1080"

Rows = list[tuple[str, list[QPixmap]]]
"""Each state of a page with its pictures, one a theme."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gui.screenshots", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("pages", nargs="*", help="pages to photograph, default all")
    parser.add_argument(
        "--sizes", type=_sizes, default=_SIZES, help=f"sizes of the pictures in pixels, default {_SIZES}"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of the screen, default 1")
    parser.add_argument("--each", action="store_true", help="also save each picture in a file of its own")
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # Qt reads it only when the application is made.
    os.environ["QT_SCALE_FACTOR"] = str(given.scale)
    qInstallMessageHandler(_complain)
    application = QApplication(["edgeopt"])
    given.out.mkdir(parents=True, exist_ok=True)
    given.out = given.out.resolve()
    suffix = "" if given.scale == 1 else f"-{given.scale:.0%}".rstrip("%")
    for name, scenes in SCENES:
        if given.pages and name not in given.pages:
            continue
        sheets = _photograph(application, scenes, given.sizes, given.scale)
        for size, rows in sheets.items():
            stem = f"{name}-{size}{suffix}"
            for state, pictures in rows:
                for theme_name, picture in zip(_THEMES, pictures, strict=True):
                    if state == _BEST or given.each:
                        which = "" if state == _BEST else f"-{state.replace(', ', '-').replace(' ', '-')}"
                        picture.save(str(given.out / f"{stem}{which}-{theme_name}.png"))
            path = given.out / f"{stem}.png"
            contact_sheet(f"{name}, {size} at {given.scale:.0%}", rows).save(str(path))
            sys.stdout.write(f"{path}\n")
    return 0


def _photograph(
    application: QApplication, scenes: Scenes, sizes: Sequence[QSize], scale: float
) -> dict[str, Rows]:
    """Plays each scene once; the window takes every size in every state."""
    sheets: dict[str, Rows] = defaultdict(list)
    for scene in scenes:
        # An ending of its own for each: what one scene remembered must not show in another.
        # All files lie in the working folder, so that no picture shows a path of this machine.
        with tempfile.TemporaryDirectory(prefix="edgeopt-screenshots-") as folder, chdir(folder):
            settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
            settings.keep("theme", _THEMES[0])
            theme = Theme(application, settings)
            stage = Stage(settings, Path())
            for state in scene(stage):
                taken: dict[str, list[QPixmap]] = {f"{size.width()}x{size.height()}": [] for size in sizes}
                for theme_name in _THEMES:
                    for (key, pictures), size in zip(taken.items(), sizes, strict=True):
                        stage.resize(size / scale)
                        pictures.append(stage.photograph(theme_name))
                        missed = pictures[-1].size() - size
                        # A size that the scale does not divide is rounded.
                        if max(abs(missed.width()), abs(missed.height())) > scale:
                            raise RuntimeError(f"the window did not become as large as {key}")
                stage.check(state)
                settings.keep("theme", _THEMES[0])
                for key, pictures in taken.items():
                    sheets[key].append((state, pictures))
            stage.close()
            theme.deleteLater()
    return sheets


def _sizes(text: str) -> tuple[QSize, ...]:
    if not re.fullmatch(r"\d+x\d+(,\d+x\d+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has no sizes like 1280x800,1920x1080")
    return tuple(QSize(*map(int, each.split("x"))) for each in text.split(","))


def _complain(kind: QtMsgType, _where: QMessageLogContext, message: str) -> None:
    # What a platform without a screen cannot do does not show in a picture.
    if kind not in {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg} and not message.startswith("This plugin does not"):
        sys.stderr.write(f"Qt: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
