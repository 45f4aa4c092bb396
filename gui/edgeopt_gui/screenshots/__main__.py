"""python -m edgeopt_gui.screenshots OUT [PAGE…]: one contact sheet a page, driven by the real command line."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from PySide6.QtCore import QMessageLogContext, QSettings, QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from edgeopt_gui.screenshots.scenes import SCENES
from edgeopt_gui.screenshots.sheet import contact_sheet
from edgeopt_gui.screenshots.stage import Stage
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme

_THEMES = ("light", "dark")
_BEST = "full"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m edgeopt_gui.screenshots", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder for the pictures")
    parser.add_argument("pages", nargs="*", help="only these")
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    qInstallMessageHandler(_complain)
    application = QApplication(["edgeopt"])
    given.out.mkdir(parents=True, exist_ok=True)
    for name, scenes in SCENES:
        if given.pages and name not in given.pages:
            continue
        rows: list[tuple[str, list[QPixmap]]] = []
        for scene in scenes:
            # An ending of its own for each: what one scene remembered must not show in another.
            with tempfile.TemporaryDirectory(prefix="edgeopt-screenshots-") as folder:
                settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
                settings.keep("theme", _THEMES[0])
                theme = Theme(application, settings)
                stage = Stage(settings, Path(folder))
                for state in scene(stage):
                    pictures = [stage.photograph(theme_name) for theme_name in _THEMES]
                    stage.check(state)
                    settings.keep("theme", _THEMES[0])
                    rows.append((state, pictures))
                    if state == _BEST:
                        for theme_name, picture in zip(_THEMES, pictures, strict=True):
                            picture.save(str(given.out / f"{name}-{theme_name}.png"))
                stage.close()
                theme.deleteLater()
        path = given.out / f"{name}.png"
        contact_sheet(name, rows).save(str(path))
        sys.stdout.write(f"{path}\n")
    return 0


def _complain(kind: QtMsgType, _where: QMessageLogContext, message: str) -> None:
    # What a platform without a screen cannot do does not show in a picture.
    if kind not in {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg} and not message.startswith("This plugin does not"):
        sys.stderr.write(f"Qt: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
