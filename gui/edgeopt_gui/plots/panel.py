"""One plot with its title, and a box a curve that hides it."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt_gui.plots.plot import Plot, colour_of
from edgeopt_gui.plots.ring import Ring
from edgeopt_gui.plots.scale import far_apart
from edgeopt_gui.plots.spec import CurveSpec, PanelSpec
from edgeopt_gui.plots.ticks import significant

_ABOUT_LOG = (
    "Logarithmic axis: equal distances are equal factors.\n"
    "Turns on by itself while the highest curve is more than 5 times the lowest."
)

_STAYS_LARGE = 0.8


class Panel(QWidget):
    toggled = Signal()

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.plot = Plot(spec)
        self.hidden: set[str] = set()
        self.keys = {curve.key: _Key(curve, spec.title) for curve in spec.curves}
        line = self.fontMetrics().height()
        self.unit = spec.unit
        self._small: bool | None = None
        self.title = QLabel(f"{spec.title}, {spec.unit}")
        self.title.setProperty("role", "heading")
        head = QHBoxLayout()
        head.setContentsMargins(line // 2, 0, line // 2, 0)
        head.setSpacing(line // 2)
        head.addWidget(self.title)
        self._chose = False
        self.logarithm = QCheckBox("Log")
        self.logarithm.setAccessibleName(f"{spec.title}: logarithmic axis")
        self.logarithm.setToolTip(_ABOUT_LOG)
        if spec.spread is None:
            self.logarithm.hide()
        self.logarithm.clicked.connect(self._choose_axis)
        head.addWidget(self.logarithm)
        head.addStretch()
        self._only = QLabel()
        head.addWidget(self._only)
        self._legend = QWidget()
        legend = QHBoxLayout(self._legend)
        legend.setContentsMargins(0, 0, 0, 0)
        legend.setSpacing(line // 2)
        for key, button in reversed(self.keys.items()):  # the last one is painted on top: it matters most
            button.toggled.connect(lambda on, key=key: self._hide(key, not on))
            button.setVisible(False)
            legend.addWidget(button)
        legend.addStretch()
        head.addWidget(self._legend)
        self._head, self._narrow = head, False
        self._rows = rows = QVBoxLayout(self)
        rows.setContentsMargins(0, line // 4, 0, 0)
        rows.setSpacing(0)
        rows.addLayout(head)
        rows.addWidget(self.plot, 1)

    def show_known(self, rings: Mapping[str, Ring]) -> bool:
        """Whether there is anything to draw; a curve without samples has no button."""
        known = {key for key in self.keys if key in rings and len(rings[key])}
        for key, button in self.keys.items():
            button.setVisible(key in known and len(self.keys) > 1)
        return bool(known)

    def fit_axis(self, rings: Mapping[str, Ring]) -> None:
        """Sets the unit, and the logarithmic axis if two curves are far apart and the user has not chosen."""
        if self.spec.small is not None:
            self._fit_unit(rings, *self.spec.small)
        if self.spec.spread is None or self._chose:
            return
        shown = (rings[key] for key in self.spec.spread if key in rings and key not in self.hidden)
        values = [ring.last for ring in shown if ring.last is not None]
        far = len(values) == 2 and far_apart(*values, before=self.logarithm.isChecked())
        self.logarithm.setChecked(far)
        self.plot.use_logarithm(far)

    def read(self, rings: Mapping[str, Ring], time_s: float | None) -> None:
        """Shows each curve's value at a time beside its name; None: only the names."""
        for curve in self.spec.curves:
            at = rings[curve.key].at(time_s) if time_s is not None and curve.key in rings else None
            value = None if at is None else at[1] * self.plot.factor
            self.keys[curve.key].read(value, alone=self._narrow)
            if len(self.keys) == 1:
                self._only.setText("" if value is None else significant(value))

    def reading(self, rings: Mapping[str, Ring], time_s: float) -> str:
        """Returns the values at a time as a sentence."""
        found = ((curve.label, rings[curve.key].at(time_s)) for curve in self.spec.curves if curve.key in rings)
        values = [f"{name} {significant(at[1] * self.plot.factor)}" for name, at in found if at is not None]
        return f"{self.spec.title}: {', '.join(values)} {self.unit}" if values else ""

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Moves the legend to a row of its own where it has no room beside the title, with values or without."""
        super().resizeEvent(event)
        if len(self.keys) == 1:
            return
        needed = sum(key.width_with_value() for key in self.keys.values())
        narrow = self.width() < needed + self.title.sizeHint().width() + self.logarithm.sizeHint().width()
        if narrow != self._narrow:
            self._narrow = narrow
            self._legend.setContentsMargins(self.fontMetrics().height() // 2 if narrow else 0, 0, 0, 0)
            if narrow:
                self._rows.insertWidget(1, self._legend)
            else:
                self._head.addWidget(self._legend)

    def dress(self) -> None:
        self.plot.dress()
        for button in self.keys.values():
            button.dress()

    def _fit_unit(self, rings: Mapping[str, Ring], unit: str, factor: float) -> None:
        keys = [key for key in self.spec.spread or self.keys if key not in self.hidden]
        values = [ring.last for key in keys if (ring := rings.get(key)) is not None and ring.last is not None]
        if not values:
            return
        # The small unit ends at 1 and returns only below a lower value, so that the axis does not flicker.
        self._small = max(values) * self.spec.factor < (_STAYS_LARGE if self._small is False else 1.0)
        self.unit = unit if self._small else self.spec.unit
        self.title.setText(f"{self.spec.title}, {self.unit}")
        self.plot.use_factor(factor if self._small else self.spec.factor)

    def _choose_axis(self, on: bool) -> None:
        self._chose = True
        self.plot.use_logarithm(on)
        self.toggled.emit()

    def _hide(self, key: str, hide: bool) -> None:
        (self.hidden.add if hide else self.hidden.discard)(key)
        self.toggled.emit()


class _Key(QCheckBox):
    """A line in the curve's colour and its name; switched off, the curve is hidden."""

    def __init__(self, curve: CurveSpec, title: str) -> None:
        super().__init__()
        self._curve = curve
        self.setText(curve.label)
        self.setChecked(True)
        self.setAccessibleName(f"{title}: {curve.label}")
        self.setToolTip(f"Show or hide {curve.tip or curve.label}")
        line = self.fontMetrics().height()
        self.setIconSize(QSize(line, line // 2))
        self.dress()

    def read(self, value: float | None, *, alone: bool) -> None:
        """Shows the name with a value, or the value `alone` where there is no room for both."""
        text = self._curve.label if value is None else significant(value)
        text = text if value is None or alone else f"{self._curve.label} {text}"
        if text != self.text():
            self.setText(text)

    def width_with_value(self) -> int:
        metrics = self.fontMetrics()
        texts = (self.text(), f"{self._curve.label} 0,000")
        return self.sizeHint().width() + metrics.horizontalAdvance(texts[1]) - metrics.horizontalAdvance(texts[0])

    def dress(self) -> None:
        size, ratio = self.iconSize(), self.devicePixelRatio()
        pixmap = QPixmap(size * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            painter.fillRect(0, size.height() // 2 - 1, size.width(), 3, colour_of(self._curve))
        self.setIcon(QIcon(pixmap))
