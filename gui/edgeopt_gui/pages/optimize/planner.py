"""Plans for a device that is not here: asks for its record, runs the command, and shows what it gives."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.optimize.choices import METRIC
from edgeopt_gui.pages.optimize.plan_view import PlanView
from edgeopt_gui.pages.optimize.run import Order
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.widgets.dialogs import RECORDS, choose_file, choose_save


class Planner(QObject):
    begun = Signal(object)
    """The `Command`."""
    failed = Signal(object)
    """The `Ending` of a plan that was cancelled or failed."""

    def __init__(self, context: Context, page: QWidget) -> None:
        super().__init__(page)
        self._context, self._page = context, page
        self._job: Job | None = None
        self.view = PlanView()

    def choose(self, order: Order | None) -> None:
        if order is None:
            return
        record = choose_file(self._page, "Choose the record of the device", RECORDS, "record")
        if record is None:
            return
        name = f"{order.model.stem}-planned.edgeopt"
        out = choose_save(self._page, "Write the planned bundle as", "Bundles (*.edgeopt)", "bundle", name)
        if out is not None:
            self.start(order, record, out)

    def start(self, order: Order, record: Path, out: Path) -> None:
        arguments = order.choices.for_plan(order.model, order.data, out, record)
        command = Command(f"Planning {order.model.name}", arguments)
        self._job = self._context.jobs.run(command)
        self._job.ended.connect(self._ended)
        self.view.wait(record.name)
        self.begun.emit(command)

    def why_not(self, order: Order | None) -> str:
        if self._job is not None:
            return "A plan is being made; the status bar can cancel it."
        if order is not None and order.choices.budget == METRIC:
            return "A plan supports only accuracy floors in dB: choose one of these."
        return ""

    def _ended(self, ending: Ending) -> None:
        self._job = None
        if ending.good:
            self.view.set(slow("edgeopt_gui.pages.optimize.plan").read_plan(ending.data))
        else:
            self.failed.emit(ending)
        self._context.changed.emit()
