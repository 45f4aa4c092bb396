"""The results of a lab with cells in every state, for pictures and tests."""

from edgeopt.lab.records import CellKey, LabCell, LabRace, LabResults
from edgeopt.measure.stats import Interval

_KEY = CellKey("", "", (), (), "")


def _done(model: str, device: str, speedup: float, accuracy_db: float, race: LabRace | None = None) -> LabCell:
    found = Interval(speedup, speedup * 0.97, speedup * 1.04, 20)
    return LabCell(
        model, device, "done", _KEY, bundle=f"bundles/{model}/{device}.edgeopt", verdict="faster", speedup=found,
        accuracy_db=accuracy_db, peak_bytes=round(speedup * 40_000_000), race=race,
    )  # fmt: skip


def example_lab() -> LabResults:
    cells = (
        _done("classifier", "desktop", 1.52, 62.1),
        _done("classifier", "camera", 2.31, 48.4),
        LabCell("classifier", "gateway", "running", _KEY, phase="racing: 4 of 7 candidates"),
        _done("detector", "desktop", 1.18, 71.9, LabRace("", "broken", "1.06x slower than before; 3 % allowed")),
        LabCell(
            "detector", "camera", "failed", _KEY, reason="camera.local does not answer.", hint="Switch it on."
        ),
        LabCell("detector", "gateway", "waiting", _KEY),
    )
    return LabResults("lab.toml", ("classifier", "detector"), ("desktop", "camera", "gateway"), cells)
