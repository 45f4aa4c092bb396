"""The only place that opens file dialogs; each begins in the model's folder, then where it was used last."""

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from edgeopt.importing import sources as importing
from edgeopt_gui.settings import Settings
from edgeopt_gui.subject import Subject

ONNX = "ONNX models (*.onnx)"
BUNDLES = "Bundles (*.edgeopt);;All files (*)"
TABLES = "Comma-separated values (*.csv)"
RECORDS = "Records of devices (*.json *.jsonl);;All files (*)"
DEPLOYED = "Bundles and models (*.edgeopt *.onnx);;All files (*)"
DATA = "Data (*.npz *.wav);;All files (*)"
TEXTS = "Texts and token ids (*.txt *.md *.npz);;All files (*)"


def models() -> str:
    """Returns the file filter of models to open, with the formats that plug-ins import."""
    return f"Models ({_suffixes()} *.py *.ort *.pb);;Bundles (*.edgeopt);;All files (*)"


def sources() -> str:
    """Returns the file filter of models to import."""
    return f"Models ({_suffixes()} *.py);;All files (*)"


def _suffixes() -> str:
    return " ".join(f"*{suffix}" for each in importing.sources() for suffix in each.suffixes)


def choose_file(parent: QWidget, title: str, pattern: str, key: str) -> Path | None:
    """`pattern` as Qt has it: `Data (*.npz)`; `key` names what is chosen: `model`."""
    dialog = _dialog(parent, title, key)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.setNameFilter(pattern)
    return _chosen(dialog, key)


def choose_folder(parent: QWidget, title: str, key: str) -> Path | None:
    dialog = _dialog(parent, title, key)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    return _chosen(dialog, key)


def choose_save(parent: QWidget, title: str, pattern: str, key: str, name: str = "") -> Path | None:
    """`name` is what the file is called unless the user says otherwise; overwriting is asked by the dialog."""
    dialog = _dialog(parent, title, key)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setFileMode(QFileDialog.FileMode.AnyFile)
    dialog.setNameFilter(pattern)
    if name:
        dialog.selectFile(name)
    return _chosen(dialog, key)


def _dialog(parent: QWidget, title: str, key: str) -> QFileDialog:
    dialog = QFileDialog(parent, title)
    dialog.setObjectName(f"choose-{key}")
    settings, model = _settings_of(parent), _model_folder_of(parent)
    last = Path(settings.text(f"folder.{key}")) if settings is not None else Path()
    folders = (last, *([model] if model is not None else []))
    begin = next((each for each in folders if each.is_absolute() and each.is_dir()), Path.home())
    dialog.setDirectory(str(begin))
    return dialog


def _chosen(dialog: QFileDialog, key: str) -> Path | None:
    parent = dialog.parentWidget()
    try:
        if not dialog.exec() or not dialog.selectedFiles():
            return None
        path = Path(dialog.selectedFiles()[0])
        settings = _settings_of(parent)
        if settings is not None:
            settings.keep(f"folder.{key}", str(path.parent))
        return path
    finally:
        dialog.deleteLater()


def _settings_of(widget: QWidget | None) -> Settings | None:
    """Returns the settings of the page or window that contains a widget; None without one."""
    settings = getattr(_context_of(widget), "settings", None)
    return settings if isinstance(settings, Settings) else None


def _model_folder_of(widget: QWidget | None) -> Path | None:
    """Returns the folder of the open model or bundle; None if there is none."""
    subject = getattr(_context_of(widget), "subject", None)
    return subject.path.parent if isinstance(subject, Subject) else None


def _context_of(widget: QWidget | None) -> object:
    """Returns the context of the page or window that contains a widget; None without one."""
    while widget is not None:
        context = getattr(widget, "context", None)
        if context is not None:
            return context
        widget = widget.parentWidget()
    return None
