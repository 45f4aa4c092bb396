"""A contact sheet: pictures in rows, each with a caption above it."""

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPainter, QPixmap

_GAP = 24
_SCALE = 0.66


def contact_sheet(title: str, rows: Sequence[tuple[str, Sequence[QPixmap]]]) -> QPixmap:
    """Returns a sheet with a row for each state, its pictures side by side."""
    size = rows[0][1][0].size() * _SCALE
    font = QFont(QGuiApplication.font())
    font.setPointSizeF(font.pointSizeF() * 1.2)
    columns = max(len(pictures) for _, pictures in rows)
    line = 28
    sheet = QPixmap(
        QSize(
            columns * (size.width() + _GAP) + _GAP,
            len(rows) * (size.height() + line + _GAP) + line + _GAP * 2,
        )
    )
    sheet.fill(QColor(Qt.GlobalColor.lightGray).lighter(112))
    with QPainter(sheet) as painter:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.setFont(font)
        painter.setPen(QColor(Qt.GlobalColor.black))
        painter.drawText(
            QRect(_GAP, _GAP, sheet.width(), line), Qt.AlignmentFlag.AlignVCenter, f"edgeopt: {title}"
        )
        top = _GAP + line
        for caption, pictures in rows:
            painter.drawText(QRect(_GAP, top, sheet.width(), line), Qt.AlignmentFlag.AlignVCenter, caption)
            for place, picture in enumerate(pictures):
                left = _GAP + place * (size.width() + _GAP)
                # One of its pixels is one of the sheet's, whatever the scale of the screen.
                picture.setDevicePixelRatio(1)
                smaller = picture.scaled(
                    size, Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
                )
                painter.drawPixmap(left, top + line, smaller)
            top += size.height() + line + _GAP
    return sheet
