"""What can be watched on this machine: the model that is open, the latest bundle, or either of them by choice."""

from pathlib import Path

from edgeopt_gui.subject import Subject

BUNDLE, MODEL = "bundle", "model"


def chosen(subject: Subject | None, bundle: Path | None, choice: str) -> Subject | None:
    """The latest bundle where there is one, unless the model was chosen."""
    if bundle is not None and (choice != MODEL or subject is None):
        return Subject(bundle, "bundle")
    return subject


def choices(subject: Subject | None, bundle: Path | None) -> tuple[tuple[str, str], ...]:
    """Titles and keys; none where there is nothing to choose."""
    if subject is None or bundle is None or subject.path == bundle:
        return ()
    return ((f"{bundle.name} (bundle)", BUNDLE), (f"{subject.name} (model)", MODEL))
