"""How fast the result is against the baseline, with all that the proof saw."""

from edgeopt.commands.documents.blocks import Block, Chart, Folded, Picture, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.charts import latencies, rounds
from edgeopt.commands.report.charts.latencies import Hill
from edgeopt.commands.report.facts import Facts, Side, Speed
from edgeopt.measure.stats import IDENTICAL, paired_ratios

_PERCENTILES = (50, 90, 95, 99)
_FEWEST_FOR_P99 = 100


def section(facts: Facts) -> Section | None:
    speed = facts.speed
    if speed is None:
        return Section("speed", "Speed", (Words(_not_measured(facts)),))
    blocks: list[Block] = [Words(f"{speed.source} {speed.measured_while}".strip()), _sides(speed)]
    if speed.by_size:
        blocks.append(_sizes(speed))
    if speed.cost:
        blocks.append(Words(speed.cost))
    if facts.float_ratio is not None:
        ratio = facts.float_ratio
        where = f"on {facts.float_on}" if facts.float_on else "in the result's own runtime"
        blocks.append(
            Words(
                f"Against the same model in full precision, {where}: "
                f"{words.ratio(ratio.median)}, {words.interval(ratio)} with {words.confidence(ratio)} confidence."
            )
        )
    if speed.verdict == IDENTICAL:
        blocks += _latencies(speed)
    elif speed.result.taken and speed.baseline.taken:
        blocks += [*_latencies(speed), *_rounds(speed)]
    else:
        blocks.append(Words("The bundle holds only medians, so single runs cannot be drawn.", "faint"))
    return Section("speed", "Speed", tuple(blocks))


def _not_measured(facts: Facts) -> str:
    predicted = facts.deployment.predicted
    if predicted is None:
        return "No speed was measured: the bundle holds no evidence of it."
    said = f"No speed was measured: {predicted.device} was not there. {predicted.basis}"
    if predicted.latency_ms is not None:
        said += f" Predicted: {words.milliseconds(predicted.latency_ms)} a run"
        said += f", the baseline {words.milliseconds(predicted.baseline_ms)}." if predicted.baseline_ms else "."
    return said


def _sides(speed: Speed) -> Table:
    known = [side for side in (speed.baseline, speed.result) if side.taken and side.taken.quantiles_ms]
    titles = ["", "candidate", ">undisturbed"]
    if known:
        titles += [f">p{each}" for each in _PERCENTILES] + [">runs", ">load", ">first run"]
    rows = [
        Row(("baseline", *_cells(speed.baseline, bool(known)))),
        Row(("result", *_cells(speed.result, bool(known))), "strong"),
    ]
    if speed.verdict == IDENTICAL:
        caption = "The bundle runs the source model unchanged, so there is nothing to compare."
        return Table(
            columns(*titles), (Row(("source and result", *_cells(speed.result, bool(known))), "strong"),), caption
        )
    found = speed.ratio
    caption = (
        f"{speed.verdict.capitalize()}: {words.ratio(found.median)}, and with "
        f"{words.confidence(found)} confidence between "
        f"{words.interval(found).replace(' to ', ' and ')}, over {found.rounds} interleaved rounds."
    )
    return Table(columns(*titles), tuple(rows), caption)


def _sizes(speed: Speed) -> Table:
    """Of the runs of one size each; their ratio says more than a median over all sizes."""
    made = [
        Row(
            (
                each.name,
                words.milliseconds(each.baseline_ms),
                words.milliseconds(each.latency_ms),
                words.ratio(each.baseline_ms / each.latency_ms if each.latency_ms else None),
                f"{each.runs:,}",
            ),
            "bad" if each.slower else "",
        )
        for each in speed.by_size
    ]
    titles = columns("size", ">baseline", ">result", ">as fast", ">runs")
    return Table(titles, tuple(made), "By the size of the input: medians of the runs of each side.")


def _cells(side: Side, full: bool) -> tuple[str, ...]:
    cells = [side.name, words.milliseconds(side.latency_ms)]
    if not full:
        return tuple(cells)
    taken = side.taken
    quantiles = taken.quantiles_ms if taken else ()
    for each in _PERCENTILES:
        enough = taken is not None and bool(quantiles) and (each < 99 or taken.runs >= _FEWEST_FOR_P99)
        cells.append(
            words.milliseconds(quantiles[each * (len(quantiles) - 1) // 100]) if enough else words.UNKNOWN
        )
    cells.append(f"{taken.runs:,}" if taken else words.UNKNOWN)
    cells += [words.milliseconds(taken.load_ms if taken else None)]
    cells += [words.milliseconds(taken.first_run_ms if taken else None)]
    return tuple(cells)


def _latencies(speed: Speed) -> list[Block]:
    sides = [("baseline", speed.baseline, "base"), ("result", speed.result, "result")]
    if speed.verdict == IDENTICAL:
        del sides[0]
    hills = [
        Hill(name, side.taken.quantiles_ms, class_)
        for name, side, class_ in sides
        if side.taken and len(side.taken.quantiles_ms) > 1 and side.taken.quantiles_ms[-1] > 0
    ]
    if not hills:
        return []

    def draw(width: int) -> Picture:
        return latencies.draw(hills, width)

    says = "Distribution of run times: " + "; ".join(
        f"{hill.name} from {words.milliseconds(hill.quantiles_ms[0])} to "
        f"{words.milliseconds(hill.quantiles_ms[-1])}, half of the runs within "
        f"{words.milliseconds(hill.quantiles_ms[len(hill.quantiles_ms) // 2])}"
        for hill in hills
    )
    caption = "Higher means more runs with this time; the slowest 5 % may be outside."
    return [Chart("Latency of single runs", f"{says}.", draw, caption)]


def _rounds(speed: Speed) -> list[Block]:
    baseline, result = speed.baseline.taken, speed.result.taken
    if not baseline or not result or not baseline.slices_ms or len(baseline.slices_ms) != len(result.slices_ms):
        return []
    ratios = paired_ratios(baseline.slices_ms, result.slices_ms)
    found = speed.ratio

    def draw(width: int) -> Picture:
        return rounds.draw(ratios, found, width)

    says = (
        f"In {len(ratios)} rounds the result was between {min(ratios):.2f} and {max(ratios):.2f} times as fast as "
        f"the baseline; it was faster in {sum(each > 1 for each in ratios)} of them."
    )
    caption = (
        "Each point is one round, in which both sides ran. The line is the speed-up, by the least "
        "disturbed round of each side in every process; the band is its interval, which includes the "
        "median round."
    )
    table = Table(
        columns(">round", ">baseline", ">result", ">ratio"),
        tuple(
            Row((str(k), words.milliseconds(b), words.milliseconds(r), words.ratio(b / r)))
            for k, (b, r) in enumerate(zip(baseline.slices_ms, result.slices_ms, strict=True), 1)
        ),
    )
    return [
        Chart("How much faster, round by round", says, draw, caption),
        Folded("The rounds in numbers", (table,)),
    ]
