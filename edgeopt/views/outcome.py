"""The outcome of a search, and a plan for another device, as blocks; its verdict and proof as sentences."""

from edgeopt import units
from edgeopt.graph.accuracy import EQUAL_DB, agreement, decibels
from edgeopt.graph.unjudged import NO_VALUES, show_accuracy
from edgeopt.measure.stats import IDENTICAL
from edgeopt.pipeline.objectives import OBJECTIVES, TOKENS_PER_SECOND, objective_named
from edgeopt.pipeline.outcome import CURRENT, Candidate, CandidateReport, GenerationProof, Outcome, in_order
from edgeopt.pipeline.shapes.shape_words import shape_lines
from edgeopt.views.blocks import Block, Marked, Row, Table, WordsBlock, columns, lines, section
from edgeopt.views.imports import import_sentence
from edgeopt.views.originals import original_speed
from edgeopt.views.words import MEMORY, accuracy, memory, milliseconds, ratio, ratio_of, samples_text

_ON_THE_FRONT = "*"
_KEPT = ("keep what you have", "undecided")


def show(outcome: Outcome) -> list[Block]:
    """The candidates, the variants that could not be made, the verdict; those of an encoder first."""
    if outcome.encoder is None:
        return _shown(outcome)
    return [section("Encoder", *_shown(outcome.encoder)), section("Decoder", *_shown(outcome))]


def _shown(outcome: Outcome) -> list[Block]:
    front = [_front_text(outcome)] if len(outcome.front) > 1 else []
    unmade = [f"not raced: {each.name}: {each.failure}" for each in outcome.variants if each.failure]
    texts = [*proof_lines(outcome), *shape_lines(outcome)]
    if outcome.cut_short:
        texts.append("Run the same command to complete the search from the cache.")
    texts.append(f"Bundle: {outcome.bundle}")
    verdict = section("", WordsBlock(outcome.summary, "strong"), *lines(texts))
    return [_candidates(outcome), *lines(front + unmade), verdict]


def _candidates(outcome: Outcome) -> Table:
    rows = []
    for number, report in enumerate(in_order(outcome), start=1):
        chosen = report.candidate == outcome.winner
        mark = _ON_THE_FRONT if report.candidate.name in outcome.front else " "
        cells = (
            Marked(f"{number}{mark}", "faint"),
            _named(report),
            _speed(report),
            accuracy(report.accuracy_db, report.tokens) if report.accuracy_db is not None else "",
            memory(report.memory) if report.memory else "",
            "" if report.size_bytes is None else units.size(report.size_bytes),
            _verdict(report, outcome),
        )
        rows.append(Row(cells, "strong" if chosen else ""))
    titles = columns(">#", "candidate", ">speed", ">accuracy", f">{MEMORY.lower()}", ">size", "verdict")
    return Table(titles, tuple(rows))


def headline(outcome: Outcome) -> str:
    """The verdict in a few words."""
    speed, proof = ratio_of(outcome.proof.speedup), outcome.proof
    objective = next(each for each in OBJECTIVES if each.name == outcome.objective)
    if outcome.verdict in _KEPT:
        return outcome.verdict.capitalize()
    if outcome.verdict == "picked":
        return f"{speed} the speed, as picked" if proof.speedup.usable else "As picked, too noisy to tell"
    if proof.figure is not None and proof.baseline_figure is not None:
        return f"{objective.shown(proof.figure)} instead of {objective.shown(proof.baseline_figure)}"
    return f"{speed} faster"


def explanation(outcome: Outcome) -> str:
    """The verdict in a sentence or two, without the words of the headline."""
    sentence = outcome.found or outcome.summary
    sentence = sentence[:1].upper() + sentence[1:]
    if outcome.verdict == "undecided":
        return f"{sentence} A longer search or a quieter device may decide it."
    if outcome.verdict not in _KEPT:
        return sentence
    state = "is a copy of what runs today" if outcome.winner.variant == CURRENT else "holds your model unchanged"
    return f"{sentence} The bundle {state}."


def proof_lines(outcome: Outcome) -> list[str]:
    """Returns the basis of the verdict, a sentence each."""
    proof = outcome.proof
    weakest = "" if proof.weakest is None or proof.accuracy_db >= EQUAL_DB else proof.weakest.sentence
    original = "" if outcome.original is None else original_speed(outcome.original)
    imported = f"Imported: {import_sentence(outcome.imported)}" if outcome.imported else ""
    unjudged = "" if show_accuracy(proof.outputs) else f"The accuracy is not proved: {NO_VALUES} on these samples."
    preset = str(outcome.preset) if outcome.preset and outcome.preset.is_shown else ""
    generated = "" if proof.generation is None else _generated(proof.generation, proof.verdict == IDENTICAL)
    return [
        line
        for line in (
            _proved(outcome),
            unjudged,
            generated,
            proof.measured_while,
            weakest,
            preset,
            imported,
            original,
        )
        if line
    ]


def _proved(outcome: Outcome) -> str:
    proof = outcome.proof
    basis = "Measured" if outcome.verdict in _KEPT else "Proved"
    if outcome.from_cache:
        basis = f"From the cache, {basis.lower()} at {outcome.from_cache}"
    how = (
        f" over {units.count(proof.legs, 'start')} of fresh processes, {proof.speedup.rounds} interleaved rounds: "
        f"{proof.speedup} ({units.percent(proof.speedup.confidence)} interval)"
    )
    if proof.verdict == IDENTICAL:
        how = f", which runs your model unchanged: {milliseconds(proof.latency_ms)} a run"
    tail = proof.tail if proof.accuracy_db < EQUAL_DB else None
    output = f" in '{tail.output}'" if tail is not None and len(proof.outputs) > 1 else ""
    lowest = f", lowest sample {decibels(tail.lowest_db)}{output}" if tail is not None else ""
    judged = f"{proof.judged}, " if proof.judged else ""
    return (
        f"{basis} from the written bundle{how}, {judged}{agreement(proof.accuracy_db)} on "
        f"{samples_text(proof.samples, proof.set_aside, proof.generated)}{lowest}; "
        f"{outcome.goal or f'floor {outcome.floor_db:g} dB'}; target {outcome.target}; "
        f"{outcome.seconds:.0f} s."
    )


def _generated(proof: GenerationProof, is_unchanged: bool) -> str:
    """Describes the decoding by the written bundle; its times beside the source's, unless it runs the source."""
    forms = ", ".join(f"{form} {decibels(value)}" for form, value in proof.lowest_db.items())
    divergences = ", ".join(f"{form} {value:.2g}" for form, value in proof.divergences.items())
    is_short = proof.greedy_tokens < proof.most_tokens
    short = f" (of {proof.most_tokens}, for lack of time)" if is_short else ""
    texts, shown = units.count(proof.texts, "text"), objective_named(TOKENS_PER_SECOND).shown
    same = ""
    if proof.same_prompts is not None:
        same = f"; the same tokens as the source after {units.count(proof.same_prompts, 'prompt')}"
    first, each = milliseconds(proof.first_token_ms), shown(1e3 / proof.token_ms)
    times = f"first token {first}, {each}"
    if not is_unchanged:
        source_first, source_each = milliseconds(proof.source_first_token_ms), shown(1e3 / proof.source_token_ms)
        times = f"first token {first} (source {source_first}), {each} (source {source_each}), not interleaved"
    return (
        f"Lowest agreement of {proof.steps} steps of {texts} with a full run of the bundle: {forms}; mean "
        f"divergence of the steps from the source in nats: {divergences}. "
        f"{units.count(proof.greedy_tokens, 'token')}{short} after each of {proof.prompts} prompts of "
        f"{proof.prompt_tokens}: {times}; "
        f"loops after {units.count(proof.loops, 'prompt')} (source {proof.source_loops}){same}."
        f"{' The bundle runs one text at a time; the source also runs batches.' if proof.is_alone else ''}"
    )


def _front_text(outcome: Outcome) -> str:
    numbers = [str(n) for n, each in enumerate(in_order(outcome), 1) if each.candidate.name in outcome.front]
    sentence = f"{_ON_THE_FRONT} Pareto front: no other is as fast, as accurate and as small"
    another = "; deliver another with --pick N" if outcome.is_cached else ""
    return f"{sentence}: {', '.join(numbers)}{another}."


def _parts(candidate: Candidate) -> tuple[str, ...]:
    """Returns a candidate's parts in few words, without fixed shapes, which are those of the data."""
    short = {"dynamic_quantization_group_size": "group"}
    options = " ".join(f"{short.get(k, k)}={v}" for k, v in candidate.options.items() if not isinstance(v, dict))
    calls = candidate.calls
    called = str(calls) if calls != type(calls)() else ""
    return candidate.variant, candidate.backend, options, called, *candidate.sizes


def _speed(report: CandidateReport) -> str:
    """Returns the speed-up, with an interval if it was proved: races only rank."""
    if report.speedup is None:
        return ""
    return str(report.speedup) if report.proved else ratio_of(report.speedup)


def why_it_won(outcome: Outcome) -> str:
    """Returns why the winner won although another candidate looked faster in the race; otherwise empty."""
    won = next((each for each in outcome.candidates if each.candidate == outcome.winner), None)
    own = won.speedup.median if won is not None and won.speedup else 0.0
    raced = [e for e in outcome.candidates if e.status == "lost" and e.speedup and e.speedup.usable]
    rivals = [(e.speedup.median, e) for e in raced if e.speedup]
    rivals = [pair for pair in rivals if pair[0] > own]
    if not rivals:
        return ""
    speed, best = max(rivals, key=lambda pair: pair[0])
    return f"{_named(best)} looked faster in the race ({ratio(speed)}): {best.reason}"


def _named(report: CandidateReport) -> str:
    return " · ".join(part for part in _parts(report.candidate) if part)


def _verdict(report: CandidateReport, outcome: Outcome) -> str:
    kept = outcome.winner == outcome.baseline
    if report.candidate == outcome.winner:
        if kept or outcome.verdict == "picked":
            return "the baseline, kept" if kept else "picked"
        why = why_it_won(outcome)
        return f"winner; {why}" if why else "winner"
    if report.candidate == outcome.baseline:
        return "the baseline"
    if report.status == "below the floor":
        if outcome.goal:
            return f"below the floor: {report.reason}"
        low = f" (lower bound {report.accuracy_low_db:.1f} dB)" if report.accuracy_low_db is not None else ""
        return f"below the floor{low}"
    if report.status == "failed":
        return report.reason[:160]
    return units.behind(report.of_best, delivered_name(outcome)) if report.of_best is not None else report.reason


def delivered_name(outcome: Outcome) -> str:
    """Returns what the verdicts of the other candidates compare with."""
    if outcome.verdict not in _KEPT:
        return "the one picked" if outcome.verdict == "picked" else "the winner"
    return "what runs today" if outcome.winner.variant == CURRENT else "your model"
