"""A matrix of model families: analyzed, simplified, run in each installed backend. Makes docs/families.md.

    .venv/bin/python benchmarks/families.py              prints the table
    .venv/bin/python benchmarks/families.py --write      writes it into docs/families.md
    .venv/bin/python benchmarks/families.py --only YOLO

The models are those of tests/families: small, with seeded random weights, as the usual exporters write them.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Array, Backend
from edgeopt.backends.onnxruntime.profile import real_shapes
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs, decibels
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.graph.model import load, save
from edgeopt.graph.passes.base import node_count
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.hw.device import Unavailable
from tests.families import FAMILIES, Family

PAGE = Path(__file__).parents[1] / "docs" / "families.md"
FLOOR_DB = 80.0
"""What `edgeopt simplify` asks of exact rewrites."""
AGREEMENT_DB = 60.0
"""Two runtimes round differently in each operator."""
JUDGE = "onnxruntime-cpu"
INTRODUCTION = f"""\
Small models of each family, run in every installed backend before and after simplification. `works` means that \
the results agree with ONNX Runtime on the source to {AGREEMENT_DB:.0f} dB or more; `A → B` means A before and B \
after.

The models have the structure that the usual exporter writes (`tests/families/`), with random weights and small \
sizes, so their speed says nothing about real models. OpenVINO computes in 32 bits. \
Made by `benchmarks/families.py --write`; do not edit."""


class Row(msgspec.Struct, frozen=True):
    """One family; of backends a reason where it does not run, None where it does."""

    family: str
    operations: int | None
    unknown: dict[str, int]
    """Operators whose work is not known, and how many nodes of each."""
    nodes_before: int
    nodes_after: int
    snr_db: float
    source: dict[str, str | None]
    simplified: dict[str, str | None]
    rolled_back: tuple[str, ...] = ()


def look(family: Family, folder: Path, backends: Sequence[Backend] = ()) -> Row:
    """Analyzes, simplifies without the check that would undo a faulty pass, and runs both everywhere."""
    proto = family.build()
    source, simplified = (folder / name / "model.onnx" for name in ("source", "simplified"))
    for path in (source, simplified):
        path.parent.mkdir(exist_ok=True)
    onnx.save(proto, source)
    feeds, model = family.feeds(proto), load(source)
    analysis = analyze_onnx(source, AnalysisOptions(real=real_shapes(source, feeds)))
    result = run_pipeline(model)
    save(result.model_ir, simplified)
    backends = backends or installed()
    judge = next(backend for backend in backends if backend.name == JUDGE)
    reference, candidate = (_run(judge, path, feeds) for path in (source, simplified))
    work = analysis.work
    return Row(
        family.name,
        work.operations if work else None,
        dict(Counter(node.operator for node in analysis.nodes if node.cost.unknown)) if work else {},
        node_count(model.ir),
        node_count(result.model_ir),
        compare_outputs([reference], [candidate]).snr_db,
        {backend.name: why_failing(backend, source, feeds, reference) for backend in backends},
        {backend.name: why_failing(backend, simplified, feeds, reference) for backend in backends},
        tuple(f"{entry.pass_name}: {entry.rolled_back}" for entry in result.ledger if entry.rolled_back),
    )


def installed() -> tuple[Backend, ...]:
    """The backends that run ONNX models here."""
    return tuple(
        backend
        for backend in BACKENDS
        if ".onnx" in backend.formats and not isinstance(backend.available(), Unavailable)
    )


def why_failing(
    backend: Backend, path: Path, feeds: Mapping[str, Array], reference: Mapping[str, Array]
) -> str | None:
    """Why a backend does not give what ONNX Runtime gives for the source, or None."""
    try:
        got = _run(backend, path, feeds)
    except EdgeoptError as error:
        return error.message
    accuracy = compare_outputs([reference], [got])
    if accuracy.problem:
        return accuracy.problem
    if accuracy.snr_db < AGREEMENT_DB:
        return f"runs, but only {accuracy.snr_db:.0f} dB of its results are ONNX Runtime's"
    return None


def _run(backend: Backend, path: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    # Where the processor can, OpenVINO computes in 16 bits unless told not to.
    session = backend.load(path, {"execution_mode": "accuracy"} if backend.name.startswith("openvino") else {})
    try:
        return {name: np.array(array) for name, array in session.run(feeds).items()}
    finally:
        session.close()


def page(rows: list[Row]) -> str:
    """docs/families.md: a table, and the reasons below it."""
    names = list(rows[0].source)
    titles = [backend.title for backend in installed()]
    head = ["family", "operations", "nodes", "simplified", "against the source", *titles]
    lines = [
        "# Families of models",
        "",
        INTRODUCTION,
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    reasons: dict[str, int] = {}
    for row in rows:
        cells = [row.family, _operations(row), str(row.nodes_before), str(row.nodes_after), decibels(row.snr_db)]
        for name in names:
            before, after = (_cell(one[name], reasons) for one in (row.source, row.simplified))
            cells.append(before if before == after else f"{before} → {after}")
        lines.append(f"| {' | '.join(cells)} |")
    unknown = sorted({operator for row in rows for operator in row.unknown})
    if unknown:
        lines += ["", f"Operators whose work depends on the data or is not known: {', '.join(unknown)}."]
    if reasons:
        lines += ["", "What does not work, and why:", ""]
        lines += [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join(lines) + "\n"


def _operations(row: Row) -> str:
    if row.operations is None:
        return "unknown"
    known = f"{row.operations / 1e3:,.0f} k"
    if count := sum(row.unknown.values()):
        known += f", {count} {'node' if count == 1 else 'nodes'} unknown"
    return known


def _cell(reason: str | None, reasons: dict[str, int]) -> str:
    if reason is None:
        return "works"
    return f"no ({reasons.setdefault(reason, len(reasons) + 1)})"


def main() -> None:
    """Prints the page; exit code 1 where a simplified model is not the source any more, or runs nowhere it did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the families' names")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    given = parser.parse_args()
    chosen = [family for family in FAMILIES if given.only.lower() in family.name.lower()]
    with tempfile.TemporaryDirectory() as folder:
        rows = [look(family, Path(folder)) for family in chosen]
    text = page(rows)
    print(text)
    if given.write and not given.only:
        PAGE.write_text(text, encoding="utf-8")
    wrong = [line for row in rows for line in faults(row)]
    print("\n".join(wrong))
    raise SystemExit(1 if wrong else 0)


def faults(row: Row) -> list[str]:
    """What may not be: results that moved, a pass that broke the graph, a backend that lost the model."""
    found = [f"{row.family}: {line}" for line in row.rolled_back]
    if row.snr_db < FLOOR_DB:
        found.append(f"{row.family}: {row.snr_db:.1f} dB against the source")
    for name, reason in row.simplified.items():
        if reason and row.source[name] is None:
            found.append(f"{row.family}: {name} runs the source, but not the simplified model: {reason}")
    return found


if __name__ == "__main__":
    main()
