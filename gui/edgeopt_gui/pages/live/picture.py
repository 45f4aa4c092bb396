"""A picture as a file."""

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QImage, QImageWriter

from edgeopt_gui.pages.live.files import replace_with


def write_png(image: QImage, path: Path) -> str:
    """Writes the image as PNG and returns its size in pixels, in words; safe in any thread."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, QByteArray(b"png"))
    if not writer.write(image):
        raise OSError(writer.errorString())
    replace_with(path, bytes(buffer.data().data()))
    return f"{image.width()} by {image.height()} pixels"
