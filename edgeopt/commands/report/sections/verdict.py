"""The verdict with the figures that matter, the device that it was proved on, and how to reproduce it."""

from edgeopt.commands.report.facts import AccuracyFacts, ReportFacts, SpeedFacts
from edgeopt.graph.unjudged import show_accuracy
from edgeopt.hw.device import Cache, Device
from edgeopt.platform.command_line import quote_word
from edgeopt.views import words
from edgeopt.views.blocks import (
    Block,
    Commands,
    Figure,
    Figures,
    Mood,
    Row,
    Section,
    Table,
    WordsBlock,
    columns,
    rows,
)


def verdict_section(facts: ReportFacts) -> Section:
    blocks: list[Block] = [WordsBlock(facts.summary), Figures(_figures(facts))]
    blocks += [WordsBlock(facts.preset)] if facts.preset else []
    blocks += [WordsBlock(each, "warning") for each in (*_warnings(facts), *facts.warnings)]
    return Section("verdict", _title(facts), tuple(blocks))


def _title(facts: ReportFacts) -> str:
    title = facts.verdict[:1].upper() + facts.verdict[1:]
    if facts.deployment.predicted is not None:
        title += ", not measured"
    if facts.verdict == "faster" and facts.speed is not None:
        title += f": {words.ratio_of(facts.speed.ratio)}"
    return title if good_enough(facts.accuracy) else f"{title}, but below the accuracy asked for"


def good_enough(accuracy: AccuracyFacts | None) -> bool:
    if accuracy is None or accuracy.snr_db is None or accuracy.floor_db is None:
        return True
    return accuracy.snr_db >= accuracy.floor_db


def _figures(facts: ReportFacts) -> tuple[Figure, ...]:
    figures = []
    if facts.speed is not None:
        figures += (
            [Figure("Time of one run", words.milliseconds(facts.speed.baseline.latency_ms), "unchanged")]
            if _is_unchanged(facts)
            else _of_speed(facts.speed)
        )
    predicted = facts.deployment.predicted
    if predicted is not None and predicted.latency_ms is not None:
        beside = f"predicted; baseline {words.milliseconds(predicted.baseline_ms)}"
        figures.append(Figure("Time of one run", words.milliseconds(predicted.latency_ms), beside))
    figures.append(_of_accuracy(facts.accuracy))
    before, after = facts.deployment.source.size_bytes, facts.model_bytes
    compared = f"source {words.size(before)} ({words.change(before, after)})"
    figures.append(Figure("Size of the model", words.size(after), compared))
    figures += _of_memory(facts.speed, unchanged=_is_unchanged(facts))
    return tuple(figures)


def _is_unchanged(facts: ReportFacts) -> bool:
    """Whether the bundle has the source model, so that its two sides differ only by noise."""
    return facts.verdict in {"keep what you have", "undecided"} and len(facts.stages) == 1


def _of_speed(speed: SpeedFacts) -> list[Figure]:
    found = speed.ratio
    rounds = words.several(found.rounds, "round")
    sure = f"{words.interval(found)}{words.confidence(found)}, {rounds}"
    mood: Mood = "good" if speed.verdict == "faster" else "bad" if speed.verdict == "slower" else ""
    return [
        Figure("Speed-up", words.ratio_of(found), sure, mood),
        Figure(
            "Time of one run",
            words.milliseconds(speed.result.latency_ms),
            f"baseline {words.milliseconds(speed.baseline.latency_ms)}",
        ),
    ]


def _of_accuracy(accuracy: AccuracyFacts | None) -> Figure:
    if accuracy is None or accuracy.snr_db is None:
        return Figure("Accuracy", "not known", "the bundle has no record")
    floor = accuracy.goal or (f"{accuracy.floor_db:g} dB" if accuracy.floor_db is not None else "not told")
    on = f"on {words.samples_text(accuracy.samples or 0, accuracy.set_aside, accuracy.generated)}"
    mood: Mood = "" if good_enough(accuracy) else "bad"
    ratio = words.decibels(accuracy.snr_db) if show_accuracy(accuracy.outputs) else "not proved"
    return Figure("Accuracy", ratio, f"floor {floor}; {on}", mood)


def _of_memory(speed: SpeedFacts | None, *, unchanged: bool) -> list[Figure]:
    result, baseline = (speed.result.memory, speed.baseline.memory) if speed else (None, None)
    if unchanged and baseline is not None:
        return [Figure(words.MEMORY, words.memory(baseline), "unchanged")]
    if result is None:
        return []
    compared = f"baseline {words.memory(baseline)}; {words.memory_change(baseline, result)}"
    return [Figure(words.MEMORY, words.memory(result), compared)]


def _warnings(facts: ReportFacts) -> list[str]:
    warnings = []
    deployment = facts.deployment
    if deployment.predicted is not None:
        warnings.append(
            f"Planned for {deployment.predicted.device}, which was not there: no time in it is measured. "
            + " ".join(f"{each.rstrip('.')}." for each in deployment.predicted.finish)
        )
    if deployment.replayed is not None and not deployment.replayed.measured:
        warnings.append(
            "This bundle was rebuilt from a deployment profile without measuring again: the evidence is that of "
            "the first one, and of its device."
        )
    if facts.changed_here and deployment.predicted is None:
        warnings.append(
            "This report was made on another device than the bundle was proved on: "
            f"{', '.join(facts.changed_here)} differ."
        )
    return warnings


def device_section(facts: ReportFacts) -> Section | None:
    blocks: list[Block] = []
    deployment = facts.deployment
    if facts.device is not None:
        blocks += [WordsBlock(facts.device_is), Table(columns("", "what it is"), rows(*_facts(facts.device)))]
        blocks += _state(facts.device)
    elif deployment.machine:
        blocks.append(Table(columns("", "what it is"), rows(*deployment.machine.items())))
    if facts.device is None and "device" in facts.unknown:
        blocks.append(WordsBlock(facts.unknown["device"], "faint"))
    if facts.speed and facts.speed.measured_while:
        blocks.append(WordsBlock(f"During the proof: {facts.speed.measured_while}"))
    if deployment.runtimes:
        chosen = deployment.run.backend
        listed = tuple(
            Row((name, version), "strong" if chosen.startswith(name) else "")
            for name, version in deployment.runtimes.items()
        )
        blocks.append(Table(columns("installed", "version"), listed))
    return Section("device", "Device and runtimes", tuple(blocks)) if blocks else None


def _facts(device: Device) -> list[tuple[str, str]]:
    host, cpu, limits = device.host, device.cpu, device.limits
    cores = f"{cpu.physical_cores or '?'} cores, {words.several(cpu.logical_cores, 'thread')}"
    if limits.usable_cores != cpu.logical_cores:
        cores += f", {limits.usable_cores} of them usable"
    kind = [each for each in (cpu.model, cpu.microarchitecture) if each]
    found = [
        ("board", host.board or ""),
        ("processor", " · ".join(kind) or "not told"),
        ("cores", cores),
        ("instructions", ", ".join(cpu.simd)),
        ("caches", ", ".join(_cache(each) for each in device.caches if each.kind != "instruction")),
        ("memory", words.size(device.memory.total_bytes)),
        (
            "system",
            " · ".join(each for each in (host.distribution or host.os, host.kernel, host.architecture) if each),
        ),
        ("virtual machine", host.virtual_machine or ""),
        ("container", host.container or ""),
        ("Python", host.python),
        *(
            (each.kind.upper(), f"{each.name}{f', driver {each.driver}' if each.driver else ''}")
            for each in device.accelerators
        ),
    ]
    return [(name, value) for name, value in found if value]


def _cache(each: Cache) -> str:
    several = f"{each.instances} x " if each.instances > 1 else ""
    return f"L{each.level} {several}{words.size(each.size_bytes)}"


def _state(device: Device) -> list[Block]:
    state = device.state
    if state is None:
        return []
    if state.worth_measuring:
        return [WordsBlock("At the start, the state of the device allowed reliable measurements.")]
    return [WordsBlock(f"At the start: {' '.join(state.reasons)}", "warning")]


def reproduce_section(facts: ReportFacts) -> Section:
    deployment = facts.deployment
    bundle = quote_word(facts.bundle)
    source = quote_word(facts.source_path or deployment.source.name)
    rebuilt = quote_word(f"{deployment.name}-again.edgeopt")
    lines = [
        ("Is the bundle intact, correct, and proved for this device?", f"edgeopt verify {bundle}"),
        ("How fast is it here, against the source model?", f"edgeopt bench {bundle} --against {source}"),
        ("Which outputs and nodes differ?", f"edgeopt compare {source} {bundle}"),
        ("Where does the time go, as a graph?", f"edgeopt graph {bundle} -o graph.html --profile-ops"),
    ]
    if deployment.run.model.endswith(".onnx"):  # an IR's nodes have other names
        command = f"edgeopt graph {source} -o changes.html --against {bundle}"
        lines.append(("What changed in the graph?", command))
    if deployment.schema > 1:  # the first did not hold what that takes
        lines.append(("Rebuild it without searching.", f"edgeopt replay {bundle} {source} -o {rebuilt}"))
    again = "quantize" if facts.made_by == "a plan of precision" else "optimize"
    lines.append(("Make it again, with your data.", f"edgeopt {again} {source} --data DATA -o {rebuilt}"))
    blocks: list[Block] = [Commands(tuple(lines)), _identity(facts)]
    return Section("reproduce", "How to reproduce", tuple(blocks))


def _identity(facts: ReportFacts) -> Table:
    deployment = facts.deployment
    run = deployment.run
    took = f" in {facts.seconds:.0f} s" if facts.seconds else ""
    known = [
        ("source model", f"{deployment.source.name}, {words.size(deployment.source.size_bytes)}"),
        ("its SHA-256", deployment.source.sha256),
        *((f"input {each.name}", f"{each.dtype} {words.dimensions(each.shape)}") for each in deployment.inputs),
        *((f"output {each.name}", f"{each.dtype} {words.dimensions(each.shape)}") for each in deployment.outputs),
        ("backend", run.backend),
        ("its options", words.options(run.options)),
        ("steps", " → ".join(each.recipe for each in deployment.steps) or "none: the source model itself"),
        ("target", deployment.target),
        ("made", f"{words.moment(deployment.created)} by edgeopt {deployment.edgeopt}{took}"),
        ("bundle", f"{words.size(facts.bundle_bytes)} in all, {words.size(facts.model_bytes)} of it the model"),
        ("this report", f"{words.moment(facts.reported_at)} by edgeopt {facts.reported_by}"),
    ]
    return Table(columns("", "what"), rows(*known))
