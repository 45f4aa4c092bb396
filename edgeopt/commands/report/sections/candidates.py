"""Sections about the choice: accuracy, the candidates between time, accuracy and size, and why each lost."""

from collections.abc import Callable, Sequence

from edgeopt.commands.report.facts import AccuracyFacts, FrontPoint, ReportFacts
from edgeopt.graph.accuracy import EQUAL_DB, OutputAccuracy
from edgeopt.graph.unjudged import NO_VALUES, show_accuracy
from edgeopt.measure.stats import UNITY
from edgeopt.pipeline.prove.report import EXACT_DB
from edgeopt.views import charts, words
from edgeopt.views.blocks import Block, Chart, Folded, Picture, Row, Section, Table, WordsBlock, columns
from edgeopt.views.charts import Axes, ChartDot, Path, scale_for


def accuracy_section(facts: ReportFacts) -> Section | None:
    found = facts.accuracy
    if found is None:
        return Section("accuracy", "Accuracy", (WordsBlock("The bundle has no record of its accuracy."),))
    blocks: list[Block] = [WordsBlock(_accuracy_sentence(found))]
    if found.weakest is not None:
        blocks.append(WordsBlock(found.weakest.sentence))
    if found.outputs:
        caption = (
            f"Against the source model, on {found.outputs_on}. The ratio is that of the signal to the "
            "noise over all samples together; the tolerance is the smallest at which NumPy's allclose "
            "passes."
        )
        errors = (">signal to noise", ">largest error", ">mean error", ">cosine")
        titles = ("output", *errors, ">equal values", ">tolerance")
        blocks.append(Table(columns(*titles), tuple(_output_row(each) for each in found.outputs), caption))
    blocks += [WordsBlock(f"{each.name}: {each.problem}", "warning") for each in found.outputs if each.problem]
    return Section("accuracy", "Accuracy", tuple(blocks))


def _accuracy_sentence(found: AccuracyFacts) -> str:
    if found.snr_db is None:
        return "The accuracy was not proved; these figures are from the golden samples."
    if not show_accuracy(found.outputs):
        return f"The accuracy is not proved: {NO_VALUES} on {found.outputs_on}."
    is_equal = found.snr_db >= EQUAL_DB
    text = (
        "All outputs are equal to those of the source model"
        if is_equal
        else f"The worst output reaches {words.decibels(found.snr_db)}"
    )
    if found.lowest_db is not None and not is_equal:
        text += f", the lowest sample {words.decibels(found.lowest_db)}"
    if found.low_db is not None and not is_equal:
        text += f", and on other samples perhaps {words.decibels(found.low_db)}"
    floor = found.goal or ("" if found.floor_db is None else f"{found.floor_db:g} dB")
    text += f"; the floor is {floor}." if floor else "."
    if found.samples:
        text += f" Proved on {words.samples_text(found.samples, found.set_aside, found.generated)}."
    return text


def _output_row(each: OutputAccuracy) -> Row:
    tolerance = each.tolerance
    tolerances = f"rtol {tolerance.rtol:g}, atol {tolerance.atol:.2g}" if tolerance else words.UNKNOWN
    errors = (words.decibels(each.snr_db), f"{each.max_abs:.3g}", f"{each.mean_abs:.3g}", f"{each.cosine:.6f}")
    return Row((each.name, *errors, words.share(each.agreement), tolerances))


_WORTH_DRAWING = 1.05
_EXPECTED = (
    "The choices of the plan. Their times are estimates from single layers; only the result was "
    "measured as a whole."
)
_RACED = (
    "All candidates: the result as proved, the others relative to it, as they stood in the race. Each time is the "
    "baseline's time of the proof divided by the speed."
)
_SHAPES = ("circle", "square", "triangle", "diamond")


def frontier_section(facts: ReportFacts) -> Section | None:
    points = [p for p in facts.points if p.time_ms is not None and p.snr_db is not None]
    if len(points) < 2:
        return None
    floor = facts.accuracy.floor_db if facts.accuracy else None
    blocks: list[Block] = [_accuracy_chart(points, floor), _front(points)]
    blocks.insert(0, WordsBlock(_times_sentence(facts)))
    sized = [p for p in points if p.size_bytes]
    sizes = [p.size_bytes or 0 for p in sized]
    if len(sizes) > 1 and max(sizes) > _WORTH_DRAWING * min(sizes):
        blocks.append(_size_chart(sized))
    return Section("frontier", "Frontier", tuple(blocks))


def _times_sentence(facts: ReportFacts) -> str:
    if facts.deployment.predicted is not None:
        return facts.deployment.predicted.basis
    return _EXPECTED if facts.made_by == "a plan of precision" else _RACED


def _accuracy_chart(points: Sequence[FrontPoint], floor: float | None) -> Chart:
    def draw(width: int) -> Picture:
        left, right, bottom, top = charts.plot_area(width)
        ratios = [_height(p) for p in points] + ([] if floor is None else [floor])
        times = [p.time_ms or 0.0 for p in points]
        axes = Axes(
            scale_for(times, left, right),
            scale_for([*ratios, min(ratios) - 2, max(ratios) + 2], bottom, top),
            "time of one run",
            "accuracy",
            words.time_axis(max(times)),
            _decibels,
        )
        paths = []
        if floor is not None:
            paths.append(
                Path(((axes.across.low, floor), (axes.across.high, floor)), "floor", f"floor {floor:g} dB")
            )
        paths.append(Path(_steps([p for p in points if p.on_front], axes), "front"))
        return charts.draw_points(axes, _dots(points, lambda p: (p.time_ms or 0.0, _height(p))), paths, width)

    front = [p for p in points if p.on_front]
    says = f"{len(points)} candidates by time and accuracy; {len(front)} of them are on the front."
    caption = (
        f"Lower left is faster and less accurate; at {EXACT_DB:g} dB and above, only rounding "
        f"differs. {_legend(points)}"
    )
    return Chart("Accuracy against time", says, draw, caption)


def _size_chart(points: Sequence[FrontPoint]) -> Chart:
    def draw(width: int) -> Picture:
        left, right, bottom, top = charts.plot_area(width)
        times = [p.time_ms or 0.0 for p in points]
        axes = Axes(
            scale_for(times, left, right),
            scale_for([float(p.size_bytes or 0) for p in points], bottom, top, room=0.12),
            "time of one run",
            "size of the model",
            words.time_axis(max(times)),
            lambda value: words.size(round(value)),
        )
        return charts.draw_points(
            axes, _dots(points, lambda p: (p.time_ms or 0.0, float(p.size_bytes or 0))), (), width
        )

    smallest = min(points, key=lambda p: p.size_bytes or 0)
    says = f"{len(points)} candidates by time and size; the smallest has {words.size(smallest.size_bytes)}."
    return Chart("Size against time", says, draw, _legend(points))


def _height(point: FrontPoint) -> float:
    return min(EXACT_DB, point.snr_db if point.snr_db is not None else 0.0)


def _decibels(value: float) -> str:
    return "exact" if value >= EXACT_DB else f"{value:g} dB"


def _backends(points: Sequence[FrontPoint]) -> list[str]:
    return list(dict.fromkeys(p.backend for p in points))


def _legend(points: Sequence[FrontPoint]) -> str:
    backends = _backends(points)
    if len(backends) < 2:
        return "The large point is the result."
    shown = ", ".join(f"{name}: {_SHAPES[k % len(_SHAPES)]}" for k, name in enumerate(backends))
    return f"The large point is the result ({shown}); hollow ones are below the floor."


def _dots(points: Sequence[FrontPoint], place: Callable[[FrontPoint], tuple[float, float]]) -> list[ChartDot]:
    backends = _backends(points)
    dots = []
    for p in sorted(points, key=lambda each: each.status == "winner"):
        x, y = place(p)
        winner = p.status == "winner"
        class_ = "result dot" if winner else "out dot" if p.status == "below the floor" else "other dot"
        label = f"{p.name}: {words.milliseconds(p.time_ms)}, {words.decibels(p.snr_db)}, {p.status}"
        shape = _SHAPES[backends.index(p.backend) % len(_SHAPES)]
        dots.append(ChartDot(x, y, class_, shape, label, 6.5 if winner else 4.5, "result" if winner else ""))
    return dots


def _steps(front: Sequence[FrontPoint], axes: Axes) -> tuple[tuple[float, float], ...]:
    """Returns the line along the front, right then up between points; points below it are beaten on both axes."""
    ordered = sorted(front, key=lambda p: p.time_ms or 0.0)
    found: list[tuple[float, float]] = []
    for p in ordered:
        x, y = p.time_ms or 0.0, _height(p)
        if found and y <= found[-1][1]:
            continue  # on the front for its memory or its size
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return (*found, (axes.across.high, found[-1][1])) if found else ()


def _front(points: Sequence[FrontPoint]) -> Table:
    front = sorted((p for p in points if p.on_front), key=lambda p: p.time_ms or 0.0)
    low, sized = any(p.low_db is not None for p in front), any(p.size_bytes is not None for p in front)
    held = any(p.peak_bytes is not None for p in front)
    titles = ["candidate", ">time", ">accuracy", *((">on other samples",) if low else ())]
    titles += [*((f">{words.MEMORY.lower()}",) if held else ()), *((">size",) if sized else ())]
    rows = []
    for p in front:
        cells = [p.name, words.milliseconds(p.time_ms), words.decibels(p.snr_db)]
        cells += [words.decibels(p.low_db)] if low else []
        cells += [words.memory(p)] if held else []
        cells += [words.size(p.size_bytes)] if sized else []
        rows.append(Row(tuple(cells), "strong" if p.status == "winner" else ""))
    small = [what for what, known in (("memory", held), ("files", sized)) if known]
    also = f" and as small in {' and '.join(small)}" if small else ""
    caption = f"The Pareto front and the result: no other deliverable candidate is as fast and as accurate{also}."
    return Table(columns(*titles), tuple(rows), caption)


_SHOWN = 12


def candidates_section(facts: ReportFacts) -> Section | None:
    if "candidates" in facts.unknown:
        return Section("candidates", "Candidates", (WordsBlock(facts.unknown["candidates"], "faint"),))
    # What a plan of precision expected of its choices stands with the frontier.
    ordered = [] if facts.made_by == "a plan of precision" else sorted(facts.points, key=_rank)
    if not ordered and not facts.not_made:
        return None
    blocks: list[Block] = []
    if ordered:
        blocks.append(_candidates_table(facts, ordered[:_SHOWN]))
    if len(ordered) > _SHOWN:
        blocks.append(
            Folded(f"{len(ordered) - _SHOWN:,} more candidates", (_candidates_table(facts, ordered[_SHOWN:]),))
        )
    if facts.not_made:
        rows = tuple(Row((each.name, each.title, each.reason)) for each in facts.not_made)
        blocks.append(Table(columns("variant", "what", "why it was not tried"), rows))
    return Section("candidates", "Candidates, and why they lost", tuple(blocks))


def _rank(point: FrontPoint) -> tuple[int, float]:
    order = ("winner", "lost", "unproven", "below the floor", "failed", "not tried")
    place = order.index(point.status) if point.status in order else len(order)
    return place, point.time_ms if point.time_ms is not None else float("inf")


def _candidates_table(facts: ReportFacts, points: list[FrontPoint]) -> Table:
    measured = any(p.ratio is not None for p in points)
    rows = []
    for p in points:
        winner = p.status == "winner"
        reason = p.reason or ("the result" if winner else "")
        source = facts.speed is not None and p.name == facts.speed.baseline.name
        proof = facts.speed.ratio if facts.speed is not None and winner and not source else None
        race = words.ratio_of(p.ratio)
        span = words.UNKNOWN if p.ratio is None or p.ratio.rounds == 0 else words.interval(p.ratio)
        if source:  # as fast as itself by definition
            race, span, proof = words.ratio(1.0), words.UNKNOWN, UNITY
        speed = (race, span, words.ratio_of(proof)) if measured else ()
        status = "chosen" if winner and p.basis == "expected" else p.status
        result = (words.decibels(p.snr_db), words.memory(p))
        cells = (p.name, status, words.milliseconds(p.time_ms), *speed, *result, reason)
        rows.append(Row(cells, "strong" if winner else ""))
    speeds = (">race", ">interval of the race", ">proof") if measured else ()
    titles = ["candidate", "", ">time", *speeds, ">accuracy", f">{words.MEMORY.lower()}", "why"]
    return Table(columns(*titles), tuple(rows))
