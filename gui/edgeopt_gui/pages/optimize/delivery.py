"""Actions on the bundle of a finished search: save, report, export, deploy and compare."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu, QWidget

from edgeopt.views.words import MEMORY
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.context import ComparePair, Context
from edgeopt_gui.pages.optimize.handing import Handing
from edgeopt_gui.pages.optimize.keeper import Keeper
from edgeopt_gui.pages.optimize.run import Run
from edgeopt_gui.pages.optimize.words import short_title
from edgeopt_gui.widgets.dialogs import choose_folder, choose_save

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import TitledChoice

_BUNDLES = "Bundles (*.edgeopt)"


class Delivery(QObject):
    """`shown` gives the search that the page shows; `single_file`, whether bundles are saved as one file."""

    def __init__(
        self, context: Context, page: QWidget, shown: Callable[[], Run | None], single_file: Callable[[], bool]
    ) -> None:
        super().__init__(page)
        self._page, self._shown, self._single_file = page, shown, single_file
        self._context = context
        self.formats: Sequence[TitledChoice] = ()
        """Formats of `edgeopt export`; empty until the core is imported."""
        self.keeper, self.handing = Keeper(context, self), Handing(context, self)

    @property
    def _run(self) -> Run:
        run = self._shown()
        assert run is not None  # noqa: S101 - no action that comes here can be done without one
        return run

    def save(self) -> None:
        name = f"{self._run.model.stem}.edgeopt"
        path = choose_save(self._page, "Save the bundle as", _BUNDLES, "bundle", name)
        if path is not None:
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        """Copies the bundle there, in the background: it may be large."""
        self.keeper.save(self._run, path, self._single_file())

    def export(self) -> None:
        title, pattern = "Export the deployment profile", "Deployment profiles (*.toml)"
        path = choose_save(self._page, title, pattern, "deployment", "deployment.toml")
        if path is not None:
            self.export_to(path)

    def export_to(self, path: Path) -> None:
        self.keeper.export(self._run, path)

    def report(self) -> None:
        name, pattern = f"{self._run.model.stem}.html", "Reports (*.html *.md *.json)"
        path = choose_save(self._page, "Save the report as", pattern, "report", name)
        if path is not None:
            self.handing.report(self._run, path)

    def menu(self, parent: QWidget) -> QMenu:
        """Returns the menu of the formats to which the bundle can be exported."""
        menu = QMenu(parent)
        menu.aboutToHide.connect(menu.deleteLater)
        for each in self.formats:
            menu.addAction(f"{short_title(each.title)}…", partial(self.export_as, each.name))
        menu.addSeparator()
        menu.addAction("Deployment profile only (deployment.toml)…", self.export)
        return menu

    def export_as(self, format_name: str) -> None:
        title = f"Choose where a folder for the export ({format_name}) is made"
        folder = choose_folder(self._page, title, "export")
        if folder is not None:
            self.handing.export(self._run, format_name, folder / f"{self._run.model.stem}-{format_name}")

    def replay(self) -> None:
        name = f"{self._run.model.stem}-again.edgeopt"
        path = choose_save(self._page, "Rebuild the bundle as", _BUNDLES, "bundle", name)
        if path is not None:
            self.handing.replay(self._run, path)

    def watch_live(self) -> None:
        bundle = self._run.bundle
        if bundle is not None:
            self._context.use_bundle(bundle)
            self._context.watch(bundle)

    def deploy(self) -> None:
        """Opens the dialog that deploys to an agent, after a preview of the changes there."""
        from edgeopt_gui.pages.optimize.result import comparison

        run = self._run
        if run.bundle is not None and run.result is not None:
            figures = [(row.what, row.against) for row in comparison(run.result) if row.what == MEMORY]
            DeployDialog(self._page, self._context, run.bundle, figures).open()

    def compare(self) -> None:
        """Compares the model with the bundle on the input data of the search."""
        run = self._run
        if run.bundle is not None:
            data = run.order.data if run.order is not None else self._context.data
            self._context.compare(ComparePair(run.model, run.bundle, data))
