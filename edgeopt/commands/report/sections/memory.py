"""The memory of the process, phase by phase."""

from edgeopt.commands.documents.blocks import Chart, Picture, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.charts import bars
from edgeopt.commands.report.charts.bars import Bar, Group
from edgeopt.commands.report.facts import Facts
from edgeopt.measure.messages import Memory

_PHASES = (
    ("before the runtime", "start_bytes"),
    ("runtime imported", "import_bytes"),
    ("model loaded", "load_bytes"),
    ("first run", "first_run_bytes"),
    ("steady", "steady_bytes"),
    ("peak", "peak_bytes"),
)


def section(facts: Facts) -> Section | None:
    speed = facts.speed
    result, baseline = (speed.result.memory, speed.baseline.memory) if speed else (None, None)
    if result is None:
        said = "The bundle has no record of memory; edgeopt bench measures it by phase."
        return None if facts.deployment.predicted else Section("memory", "Memory", (Words(said),))
    known = [(name, key) for name, key in _PHASES if getattr(result, key) is not None]
    groups = [
        Group(
            name,
            (
                *([_bar(before, "base")] if (before := _of(baseline, key)) is not None else []),
                _bar(_of(result, key) or 0, "result"),
            ),
        )
        for name, key in known
    ]

    def draw(width: int) -> Picture:
        return bars.draw(groups, width)

    rows = [
        Row(
            (
                name,
                words.mebibytes(_of(baseline, key)),
                words.mebibytes(_of(result, key)),
                _change(baseline, result, key),
            )
        )
        for name, key in known
    ]
    own = _own(result)
    if own is not None:
        rows.append(Row(("the model's own: peak less import", *_owns(baseline, result)), "strong"))
    table = Table(columns("at the end of", ">baseline", ">result", ">change"), tuple(rows))
    peak = f"At its peak the result took {words.mebibytes(result.peak_bytes)}"
    compared = f", the baseline {words.mebibytes(baseline.peak_bytes)}." if baseline else "."
    caption = (
        "Resident memory of the process, including Python and the samples; grey is the baseline. "
        "Memory of the import belongs to the runtime, not to a model."
    )
    chart = Chart("Resident memory by phase", peak + compared, draw, caption)
    return Section("memory", "Memory", (chart, table))


def _of(memory: Memory | None, key: str) -> int | None:
    found = getattr(memory, key, None)
    return found if isinstance(found, int) else None


def _bar(count: int, class_: str) -> Bar:
    return Bar(count, class_, words.mebibytes(count))


def _change(before: Memory | None, after: Memory, key: str) -> str:
    return words.change(_of(before, key), _of(after, key))


def _own(memory: Memory | None) -> int | None:
    if memory is None or memory.peak_bytes is None or memory.import_bytes is None:
        return None
    return memory.peak_bytes - memory.import_bytes


def _owns(before: Memory | None, after: Memory) -> tuple[str, str, str]:
    first, second = _own(before), _own(after)
    return words.mebibytes(first), words.mebibytes(second), words.change(first, second)
