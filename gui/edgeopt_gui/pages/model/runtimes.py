"""The coverage of the model by each installed runtime, with the operators that fall back."""

from edgeopt.graph.analysis import CoverageRow
from edgeopt_gui.pages.model.details import Detailed
from edgeopt_gui.pages.model.findings import coverage_facts
from edgeopt_gui.pages.model.tables import COVERAGE_COLUMNS
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.records import RecordsModel


class Runtimes(Detailed):
    def __init__(self) -> None:
        self.facts = FactsView(name_letters=12)
        records = RecordsModel(COVERAGE_COLUMNS, key=lambda row: row.backend)
        super().__init__(records, "Runtimes", (self.facts,), lines=15)
        self.table.picked.connect(self._show)

    def _show(self, row: CoverageRow | None) -> None:
        self.facts.set_groups(coverage_facts(row) if row is not None else ())
