"""Icons: simple SVGs drawn with one line, in the palette's colours."""

from functools import cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer

FOLDER = Path(__file__).parent / "icons"
_SIZES = (16, 20, 24, 32)


def icon(name: str, *, on_accent: bool = False) -> QIcon:
    """Returns an icon in the present colours; `on_accent` for a prominent button; an empty icon for ""."""
    return _made(name, _colours(on_accent)) if name else QIcon()


@cache
def _colours(on_accent: bool) -> tuple[tuple[QIcon.Mode, str], ...]:
    palette = QGuiApplication.palette()
    role = QPalette.ColorRole.HighlightedText if on_accent else QPalette.ColorRole.ButtonText
    return (
        (QIcon.Mode.Normal, palette.color(QPalette.ColorGroup.Active, role).name()),
        (QIcon.Mode.Disabled, palette.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.ButtonText).name()),
        (
            QIcon.Mode.Selected,
            palette.color(QPalette.ColorGroup.Active, QPalette.ColorRole.HighlightedText).name(),
        ),
    )


@cache
def _made(name: str, colours: tuple[tuple[QIcon.Mode, str], ...]) -> QIcon:
    drawing = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    ratios = {screen.devicePixelRatio() for screen in QGuiApplication.screens()}
    made = QIcon()
    for mode, colour in colours:
        renderer = QSvgRenderer(QByteArray(drawing.replace("currentColor", colour).encode()))
        for size in _SIZES:
            for ratio in ratios:
                made.addPixmap(_pixmap(renderer, QSize(size, size), ratio), mode)
    return made


def _pixmap(renderer: QSvgRenderer, size: QSize, ratio: float) -> QPixmap:
    pixmap = QPixmap(size * ratio)
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        renderer.render(painter, QRectF(0, 0, size.width(), size.height()))
    return pixmap


def forget_icons() -> None:
    """Clears the cached colours after the palette has changed."""
    _colours.cache_clear()
