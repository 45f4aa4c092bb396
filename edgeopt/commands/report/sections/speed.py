"""Sections about speed: result against baseline, the steps to it, memory, and processing around it."""

from functools import partial

from edgeopt import units
from edgeopt.bundle.deployment import Part, Tensor, describe_part
from edgeopt.commands.report.facts import ReportFacts, SpeedFacts, SpeedSide, Stage
from edgeopt.measure.messages import Memory
from edgeopt.measure.stats import IDENTICAL, paired_ratios
from edgeopt.views import charts, words
from edgeopt.views.blocks import Block, Chart, Folded, Mood, Row, Section, Table, WordsBlock, columns
from edgeopt.views.charts import Bar, Group, Hill

_PERCENTILES = (50, 90, 95, 99)


def speed_section(facts: ReportFacts) -> Section | None:
    speed = facts.speed
    if speed is None:
        return Section("speed", "Speed", (WordsBlock(_not_measured(facts)),))
    blocks: list[Block] = [WordsBlock(f"{speed.source} {speed.measured_while}".strip()), _sides(speed)]
    if speed.by_size:
        blocks.append(_sizes(speed))
    if speed.cost:
        blocks.append(WordsBlock(speed.cost))
    if facts.float_ratio is not None:
        ratio = facts.float_ratio
        where = f"on {facts.float_on}" if facts.float_on else "in the result's own runtime"
        blocks.append(
            WordsBlock(f"Against the same model in full precision, {where}: {ratio}{words.confidence(ratio)}.")
        )
    if speed.verdict == IDENTICAL:
        blocks += _latencies(speed)
    elif speed.result.taken and speed.baseline.taken:
        blocks += [*_latencies(speed), *_rounds(speed)]
    else:
        blocks.append(WordsBlock("The bundle holds only medians, so single runs cannot be drawn.", "faint"))
    return Section("speed", "Speed", tuple(blocks))


def _not_measured(facts: ReportFacts) -> str:
    predicted = facts.deployment.predicted
    if predicted is None:
        return "No speed was measured: the bundle holds no evidence of it."
    text = f"No speed was measured: {predicted.device} was not there. {predicted.basis}"
    if predicted.latency_ms is not None:
        text += f" Predicted: {words.milliseconds(predicted.latency_ms)} a run"
        text += f", the baseline {words.milliseconds(predicted.baseline_ms)}." if predicted.baseline_ms else "."
    return text


def _sides(speed: SpeedFacts) -> Table:
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
    ratio = f"{found}{words.confidence(found)}"
    caption = f"{speed.verdict.capitalize()}: {ratio}, over {found.rounds} interleaved rounds."
    return Table(columns(*titles), tuple(rows), caption)


def _sizes(speed: SpeedFacts) -> Table:
    """Tabulates the runs of each size, whose ratio says more than a median over all sizes."""
    made = []
    for each in speed.by_size:
        times = (words.milliseconds(each.baseline_ms), words.milliseconds(each.latency_ms))
        ratio = words.ratio(each.baseline_ms / each.latency_ms if each.latency_ms else None)
        made.append(Row((each.name, *times, ratio, f"{each.runs:,}"), "bad" if each.slower else ""))
    titles = columns("size", ">baseline", ">result", ">as fast", ">runs")
    return Table(titles, tuple(made), "By the size of the input: medians of the runs of each side.")


def _cells(side: SpeedSide, full: bool) -> tuple[str, ...]:
    cells = [side.name, words.milliseconds(side.latency_ms)]
    if not full:
        return tuple(cells)
    taken = side.taken
    quantiles = taken.quantiles_ms if taken else ()
    for each in _PERCENTILES:
        enough = taken is not None and bool(quantiles) and (each < 99 or taken.runs >= units.RUNS_FOR_P99)
        cells.append(
            words.milliseconds(quantiles[each * (len(quantiles) - 1) // 100]) if enough else words.UNKNOWN
        )
    cells.append(f"{taken.runs:,}" if taken else words.UNKNOWN)
    cells += [words.milliseconds(taken.load_ms if taken else None)]
    cells += [words.milliseconds(taken.first_run_ms if taken else None)]
    return tuple(cells)


def _latencies(speed: SpeedFacts) -> list[Block]:
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
    draw = partial(charts.draw_hills, hills)
    says = "Distribution of run times: " + "; ".join(
        f"{hill.name} from {words.milliseconds(hill.quantiles_ms[0])} to "
        f"{words.milliseconds(hill.quantiles_ms[-1])}, half of the runs within "
        f"{words.milliseconds(hill.quantiles_ms[len(hill.quantiles_ms) // 2])}"
        for hill in hills
    )
    caption = "Higher means more runs with this time; the slowest 5 % may be outside."
    return [Chart("Latency of single runs", f"{says}.", draw, caption)]


def _rounds(speed: SpeedFacts) -> list[Block]:
    baseline, result = speed.baseline.taken, speed.result.taken
    if not baseline or not result or not baseline.slices_ms or len(baseline.slices_ms) != len(result.slices_ms):
        return []
    ratios = paired_ratios(baseline.slices_ms, result.slices_ms)
    found = speed.ratio
    draw = partial(charts.draw_rounds, ratios, found)
    says = (
        f"In {len(ratios)} rounds the result was between {min(ratios):.2f} and {max(ratios):.2f} times as fast as "
        f"the baseline; it was faster in {sum(each > 1 for each in ratios)} of them."
    )
    caption = (
        "Each point is one round, in which both sides ran. The line is the speed-up, taken from the least "
        "disturbed round of each side in every process. The band is the confidence interval, widened to contain "
        "the median of the points."
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


def stages_section(facts: ReportFacts) -> Section | None:
    stages = facts.stages
    if not stages:
        return None
    if len(stages) == 1:
        message = "The result is the unchanged source model, so there are no steps."
        return Section("stages", "Stages", (WordsBlock(message),))
    blocks: list[Block] = []
    evidence = facts.deployment.evidence
    if any(stage.time_ms for stage in stages):
        blocks.append(_stages_chart(stages, evidence is not None and evidence.load is not None))
    blocks.append(_stages_table(stages))
    return Section("stages", "Stages", tuple(blocks))


def _stages_chart(stages: tuple[Stage, ...], under_load: bool) -> Chart:
    known = [stage for stage in stages if stage.time_ms]
    groups = [Group(stage.name, (_stage_bar(stage),)) for stage in known]
    draw = partial(charts.draw_bars, groups)
    times = "; ".join(f"{stage.name}: {words.milliseconds(stage.time_ms)}" for stage in known)
    caption = (
        "Source and result were measured interleaved at the end. The steps between them raced for a "
        "few rounds: their time is the baseline's divided by the ratio in these rounds, with its "
        "interval."
    )
    what = "Time by sample, under load" if under_load else "Time of one run"
    return Chart(f"{what}, step by step", f"{what} by stage: {times}.", draw, caption)


def _stage_bar(stage: Stage) -> Bar:
    value, found = stage.time_ms or 0.0, stage.ratio
    label = words.milliseconds(value) + (f" · {words.ratio_of(found)}" if found else "")
    class_ = "base" if found is None else "result" if stage.proved else "between"
    if found is None or not found.usable:
        return Bar(value, class_, label)
    return Bar(value, class_, label, value * found.median / found.high, value * found.median / found.low)


def _stages_table(stages: tuple[Stage, ...]) -> Table:
    rows = []
    for place, stage in enumerate(stages):
        ratio = words.ratio_of(stage.ratio) if stage.ratio else "1.00x" if stage.proved else words.UNKNOWN
        speed = (words.milliseconds(stage.time_ms), ratio, words.interval(stage.ratio))
        memory = (words.size(stage.size_bytes), words.memory(stage))
        accuracy = "the reference" if place == 0 else words.decibels(stage.snr_db)
        mood: Mood = "strong" if place == len(stages) - 1 else ""
        rows.append(Row((stage.name, stage.what, *speed, *memory, accuracy), mood))
    titles = ("stage", "what", ">time", ">speed", ">interval", ">size", f">{words.MEMORY.lower()}", ">accuracy")
    return Table(columns(*titles), tuple(rows))


_PHASES = (
    ("before the runtime", "start_bytes"),
    ("runtime imported", "import_bytes"),
    ("model loaded", "load_bytes"),
    ("first run", "first_run_bytes"),
    ("steady", "steady_bytes"),
    ("peak", "peak_bytes"),
)


def memory_section(facts: ReportFacts) -> Section | None:
    speed = facts.speed
    result, baseline = (speed.result.memory, speed.baseline.memory) if speed else (None, None)
    if result is None:
        message = "The bundle has no record of memory; edgeopt bench measures it by phase."
        return None if facts.deployment.predicted else Section("memory", "Memory", (WordsBlock(message),))
    known = [(name, key) for name, key in _PHASES if getattr(result, key) is not None]
    if not known:
        message = "The system did not report the memory of the processes."
        return Section("memory", "Memory", (WordsBlock(message),))
    groups, rows = [], []
    for name, key in known:
        before, after = _bytes_of(baseline, key), _bytes_of(result, key)
        sides = [(before, "base"), (after or 0, "result")]
        bars = (Bar(count, class_, words.mebibytes(count)) for count, class_ in sides if count is not None)
        groups.append(Group(name, tuple(bars)))
        rows.append(Row((name, *_compared(before, after))))
    draw = partial(charts.draw_bars, groups)
    if result.added_bytes is not None:
        own = _compared(_bytes_of(baseline, "added_bytes"), result.added_bytes)
        rows.append(Row(("added: peak less before the runtime", *own), "strong"))
    table = Table(columns("at the end of", ">baseline", ">result", ">change"), tuple(rows))
    peak = f"At its peak the result added {words.memory(result)}"
    compared = f", the baseline {words.memory(baseline)}." if baseline else "."
    caption = (
        "Resident memory of the process, including Python and the samples; grey is the baseline. "
        "Added is what runtime and model take above an empty process of the same kind."
    )
    chart = Chart("Resident memory by phase", peak + compared, draw, caption)
    return Section("memory", "Memory", (chart, table))


def _bytes_of(memory: Memory | None, key: str) -> int | None:
    found = getattr(memory, key, None)
    return found if isinstance(found, int) else None


def _compared(before: int | None, after: int | None) -> tuple[str, str, str]:
    return words.mebibytes(before), words.mebibytes(after), words.change(before, after)


def processing_section(facts: ReportFacts) -> Section | None:
    processing = facts.deployment.processing
    if processing is None:
        return None
    times = processing.times
    rows = [
        _part_row("before", processing.pre, times.pre_ms if times else None),
        Row(
            ("inference", "the model", "", "", words.milliseconds(times.inference_ms if times else None)), "strong"
        ),
        _part_row("after", processing.post, times.post_ms if times else None),
    ]
    caption = "It is not part of the inference, which all other figures measure."
    if times is not None:
        caption += (
            f" Timed in one process, one stage after the other, medians of {times.runs} runs; caches are "
            "colder there than in inference alone."
        )
    titles = ("", "what", "takes", "gives", ">time")
    table = Table(columns(*titles), tuple(row for row in rows if row is not None), caption)
    return Section("processing", "Before and after the model", (table,))


def _part_row(name: str, part: Part | None, time_ms: float | None) -> Row | None:
    if part is None:
        return None
    return Row(
        (name, describe_part(part), _tensors(part.inputs), _tensors(part.outputs), words.milliseconds(time_ms))
    )


def _tensors(tensors: list[Tensor]) -> str:
    return "; ".join(f"{each.name} {each.dtype} {words.dimensions(each.shape)}" for each in tensors)
