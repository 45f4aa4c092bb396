"""The subjects that can be watched on this machine: the open model and the latest bundle."""

from pathlib import Path

from edgeopt_gui.context import Context
from edgeopt_gui.subject import Subject

BUNDLE, MODEL = "bundle", "model"


def chosen(subject: Subject | None, bundle: Path | None, choice: str) -> Subject | None:
    """Returns the latest bundle if there is one, unless the model was chosen."""
    if bundle is not None and (choice != MODEL or subject is None):
        return Subject(bundle, "bundle")
    return subject


def choices(subject: Subject | None, bundle: Path | None) -> tuple[tuple[str, str], ...]:
    """Titles and keys; none where there is nothing to choose."""
    if subject is None or bundle is None or subject.path == bundle:
        return ()
    return ((f"{bundle.name} (bundle)", BUNDLE), (f"{subject.name} (model)", MODEL))


class Choice:
    """The choice of the subject to watch on this machine, between the open model and the latest bundle."""

    def __init__(self, context: Context) -> None:
        self.key = BUNDLE
        self._context = context
        self._opened = context.subject.path if context.subject is not None else None

    @property
    def subject(self) -> Subject | None:
        return chosen(self._context.subject, self._context.bundle, self.key)

    @property
    def offered(self) -> tuple[tuple[str, str], ...]:
        """The titles and keys of the choices."""
        return choices(self._context.subject, self._context.bundle)

    def follow_opened(self) -> bool:
        """Chooses what was opened last; whether that is another file than before."""
        subject = self._context.subject
        opened = subject.path if subject is not None else None
        other, self._opened = opened != self._opened, opened
        self.key = MODEL if subject is not None and subject.kind == "model" else BUNDLE
        return other
