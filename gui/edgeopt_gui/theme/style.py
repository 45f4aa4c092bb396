"""The stylesheet: little, and made of the palette's roles and the font's measures."""

from pathlib import Path
from string import Template

from PySide6.QtGui import QFontMetrics, QPalette

from edgeopt_gui.theme import colours
from edgeopt_gui.theme.icons import icon

_Role = QPalette.ColorRole
_PICTURES = (("chevron-down", False), ("chevron-up", False), ("tick", True), ("dot", True))
_PICTURE_SIZE = 32

# Widgets are found by object names and properties that the widgets set on themselves.
_SHEET = Template("""
QToolTip { color: $tip_text; background: $tip; border: 1px solid $line; padding: ${quarter}px; }
#rail { background: $raised; border-right: 1px solid $line; }
#rail QToolButton { border: none; border-left: ${bar}px solid transparent; border-radius: 0;
  background: transparent; padding: ${half}px ${quarter}px ${half}px ${quarter}px; }
#rail QToolButton:hover { background: $soft; }
#rail QToolButton:checked { border-left-color: $accent; background: $soft; font-weight: bold; }
#rail QToolButton:focus { outline: none; text-decoration: underline; }
#header { border-bottom: 1px solid $line; background: $window; }
#header #title { font-size: ${title_pt}pt; font-weight: bold; }
#header #subject { color: $muted; }
QLabel#sentence { font-size: ${large_pt}pt; }
QLabel#next-step, QLabel[role="muted"] { color: $muted; }
QLabel[role="muted"]:disabled, QLabel[role="problem"]:disabled { color: $disabled; }
QLabel[role="problem"] { color: $bad; }
QToolButton[role="fold"] { border: 1px solid transparent; border-radius: ${round}px; font-weight: bold;
  padding: ${thin}px 0; text-align: left; }
QToolButton[role="fold"]:hover { background: $soft; }
QToolButton[role="fold"]:focus { border-color: $accent; }
QToolButton[autoRaise="true"] { border: 1px solid transparent; border-radius: ${round}px; padding: ${thin}px; }
QToolButton[autoRaise="true"]:hover { background: $soft; }
QToolButton[autoRaise="true"]:checked { background: $soft; border-color: $line; }
QToolButton[autoRaise="true"]:focus { border-color: $accent; }
QScrollArea, #graph-canvas { border: 1px solid transparent; }
QScrollArea:focus, #graph-canvas:focus, QTextBrowser:focus { border: 1px solid $accent; }
QLabel:focus { background: $soft; }
QLabel[role="heading"] { font-weight: bold; }
QPushButton { padding: ${quarter}px ${half}px; min-height: ${line_height}px; border: 1px solid $line;
  border-radius: ${round}px; background: $button; }
QPushButton:hover { background: $soft; }
QPushButton:pressed, QPushButton:checked { background: $line; }
QPushButton:focus { border-color: $accent; }
QPushButton:disabled { color: $disabled; border-color: $midlight; background: transparent; }
QPushButton[primary="true"]:enabled { color: $on_accent; background: $accent; border-color: $accent;
  font-weight: bold; }
QPushButton[primary="true"]:enabled:hover { background: $accent_hover; }
QPushButton[primary="true"]:enabled:focus { border: 2px solid $text; }
QPushButton[flat="true"] { border-color: transparent; background: transparent; }
QPushButton[flat="true"]:hover { background: $soft; }
QPushButton[flat="true"]:focus { border-color: $accent; }
QLineEdit, QComboBox, QAbstractSpinBox { border: 1px solid $line; border-radius: ${round}px; background: $raised;
  padding: ${thin}px ${quarter}px; selection-background-color: $accent; selection-color: $on_accent; }
QLineEdit:focus, QComboBox:focus, QAbstractSpinBox:focus { border-color: $accent; }
QLineEdit:disabled, QComboBox:disabled, QAbstractSpinBox:disabled { background: transparent; color: $disabled; }
QComboBox::drop-down { border: none; width: ${em}px; }
QComboBox::down-arrow { image: url($pictures/chevron-down.png); width: ${small}px; height: ${small}px; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { border: none; background: transparent;
  width: ${em}px; }
QAbstractSpinBox QLineEdit, QComboBox QLineEdit { border: none; padding: 0 1px; background: transparent; }
QAbstractSpinBox::up-arrow { image: url($pictures/chevron-up.png); width: ${small}px; height: ${small}px; }
QAbstractSpinBox::down-arrow { image: url($pictures/chevron-down.png); width: ${small}px; height: ${small}px; }
QCheckBox, QRadioButton { spacing: ${quarter}px; padding: 1px 0; }
QCheckBox::indicator, QRadioButton::indicator { width: ${mark}px; height: ${mark}px; border: 1px solid $muted;
  background: $raised; }
QCheckBox::indicator { border-radius: ${thin}px; }
QRadioButton::indicator { border-radius: ${mark_round}px; }
QCheckBox::indicator:checked, QRadioButton::indicator:checked { border-color: $accent; background: $accent; }
QCheckBox::indicator:checked { image: url($pictures/tick.png); }
QRadioButton::indicator:checked { image: url($pictures/dot.png); }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border: 2px solid $text; }
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled { border-color: $line; background: $soft; }
QScrollBar { background: transparent; border: none; margin: 0; }
QScrollBar:vertical { width: ${em}px; }
QScrollBar:horizontal { height: ${em}px; }
QScrollBar::handle { background: $line; border-radius: ${handle_round}px; margin: ${thin}px; }
QScrollBar::handle:vertical { min-height: ${wide}px; }
QScrollBar::handle:horizontal { min-width: ${wide}px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QProgressBar { border: 1px solid $line; border-radius: ${thin}px; background: $raised; text-align: center; }
QProgressBar::chunk { background: $accent; border-radius: ${thin}px; }
QHeaderView { background: $raised; }
QHeaderView::section { background: $raised; color: $muted; border: none; border-bottom: 1px solid $line;
  padding: ${quarter}px ${half}px; }
QHeaderView::up-arrow { image: url($pictures/chevron-up.png); width: ${small}px; height: ${half}px;
  subcontrol-position: top center; }
QHeaderView::down-arrow { image: url($pictures/chevron-down.png); width: ${small}px; height: ${half}px;
  subcontrol-position: top center; }
QTableView, QTreeView, QListView { border: 1px solid $line; background: $raised;
  alternate-background-color: $stripe; gridline-color: $midlight; selection-background-color: $accent;
  selection-color: $on_accent; }
QTableView::item, QTreeView::item { padding: 0 ${quarter}px; }
QTableView:focus, QTreeView:focus, QListView:focus, QPlainTextEdit:focus { border-color: $accent; }
QPlainTextEdit { border: 1px solid $line; background: $raised; }
QFrame[role="card"] { background: $raised; border: 1px solid $line; border-radius: ${round}px; }
#palette-frame { background: $window; border: 1px solid $muted; border-radius: ${round}px; }
QLineEdit#command-line { border: none; background: $stripe; border-radius: ${round}px; padding: ${quarter}px; }
QLineEdit#command-line:focus { border: 1px solid $accent; }
QStatusBar { border-top: 1px solid $line; }
QStatusBar::item { border: none; }
QMenuBar { background: $window; border-bottom: 1px solid $line; }
#drop-hint { background: $veil; }
#drop-hint QLabel { color: $text; background: $raised; border: 2px dashed $accent; border-radius: ${round}px;
  padding: ${em}px; font-size: ${large_pt}pt; }
""")


def write_pictures(folder: Path) -> None:
    """Writes the pictures inside widgets to files, as stylesheets require."""
    for name, on_accent in _PICTURES:
        icon(name, on_accent=on_accent).pixmap(_PICTURE_SIZE, _PICTURE_SIZE).save(str(folder / f"{name}.png"))


def stylesheet(palette: QPalette, metrics: QFontMetrics, point_size: float, pictures: Path) -> str:
    """`pictures` is the folder that `write_pictures` filled."""
    em = metrics.height()
    accent = palette.color(_Role.Accent)
    veil = palette.color(_Role.Window)
    veil.setAlphaF(0.8)
    return _SHEET.substitute(
        window=palette.color(_Role.Window).name(),
        raised=palette.color(_Role.Base).name(),
        stripe=palette.color(_Role.AlternateBase).name(),
        text=palette.color(_Role.WindowText).name(),
        muted=palette.color(_Role.PlaceholderText).name(),
        disabled=palette.color(QPalette.ColorGroup.Disabled, _Role.ButtonText).name(),
        button=palette.color(_Role.Button).name(),
        soft=palette.color(_Role.Midlight).name(),
        midlight=palette.color(_Role.Midlight).name(),
        line=palette.color(_Role.Mid).name(),
        accent=accent.name(),
        accent_hover=(accent.darker(112) if veil.lightness() > 128 else accent.lighter(108)).name(),
        on_accent=palette.color(_Role.HighlightedText).name(),
        bad=colours.bad().name(),
        tip=palette.color(_Role.ToolTipBase).name(),
        tip_text=palette.color(_Role.ToolTipText).name(),
        veil=f"rgba({veil.red()}, {veil.green()}, {veil.blue()}, {veil.alpha()})",
        pictures=pictures.as_posix(),
        thin=max(2, em // 7),
        small=max(8, em * 2 // 3),
        mark=(mark := max(10, em * 6 // 7)),
        mark_round=mark // 2 + 1,
        handle_round=max(2, em // 2 - max(2, em // 7) - 1),
        wide=em * 2,
        bar=max(3, em // 5),
        quarter=max(2, em // 4),
        half=max(4, em // 2),
        round=max(3, em // 4),
        em=em,
        line_height=em,
        large_pt=round(point_size * 1.2, 1),
        title_pt=round(point_size * 1.5, 1),
    )
