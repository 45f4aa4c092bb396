"""Search from a model and a device to a proved bundle, or to the unchanged deployment."""

import os
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from edgeopt.bundle.write import check_target
from edgeopt.events import Emit
from edgeopt.graph.files.sniff import check_file
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.context import SearchResources, open_context
from edgeopt.pipeline.inspect import Search, prepare
from edgeopt.pipeline.objectives import MEMORY
from edgeopt.pipeline.outcome import Outcome
from edgeopt.pipeline.padding import graph_passes, kept_by
from edgeopt.pipeline.plans.gathering import PlanTerms, VariantBuilder
from edgeopt.pipeline.plans.recipes import BuildInputs
from edgeopt.pipeline.prove.deliver import deliver
from edgeopt.pipeline.prove.pick import find_candidate
from edgeopt.pipeline.prove.pick import pick as deliver_picked
from edgeopt.pipeline.race.loads import choose_load
from edgeopt.pipeline.race.race import open_meter
from edgeopt.pipeline.race.tuning import run_races
from edgeopt.pipeline.recall import SearchCache
from edgeopt.pipeline.request import OptimizeRequest, check, inputs_of
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.screen import CandidatePool
from edgeopt.pipeline.stopping import ClockedEmit, StopControl, clock_for, nothing_proved_error
from edgeopt.workspace import WORK, workspace

# Longest time of a search on a busy machine, as a multiple of its limit: with a limit of the user's, and without.
_LONGEST_OF_USER, _LONGEST = 1.2, 2.0


def variant_inputs(search: Search, runner: TrialRunner) -> BuildInputs:
    data, profile, facts = search.data, search.profile, search.facts
    # With a mask in buckets, what is left out is cut off before the run, down to a size with a program of its own.
    is_cut = data.shaped is not None and bool(data.shaped.mask)
    is_plain = data.of_user and not is_cut and data.decoder is None
    kept = kept_by(facts.inputs, data.samples) if is_plain else 1.0
    return BuildInputs(
        model=search.request.model,
        size_bytes=facts.size_bytes,
        samples_path=data.shaped.usual_path if data.shaped is not None else runner.samples_path,
        split=data.split,
        of_user=data.of_user or data.decoder is not None,
        profile=profile,
        kept=kept,
        passes=graph_passes(profile, kept),
        operators=facts.operators,
        folder=runner.folder / "variants",
        has_cache=data.decoder is not None,
        saves_memory=search.objective.name == MEMORY or search.goal.limits.memory_bytes is not None,
    )


def plan_terms_of(search: Search) -> PlanTerms | None:
    """Returns the terms of precision plans; None for an objective that does not gain from saved time."""
    if not search.objective.of_time:
        return None
    reference = search.reference
    labels = None if reference.labels is None else reference.labels[: reference.split.prove_first]
    return PlanTerms(reference.goal, labels)


def run_search(settings: OptimizeRequest, emit: Emit, stop: threading.Event) -> Outcome:
    """Runs one search in a folder of its own."""
    with workspace(WORK) as folder:
        return run(settings, folder, emit, stop)


def run(settings: OptimizeRequest, folder: Path, emit: Emit, stop: threading.Event) -> Outcome:
    """Runs a search or, if a candidate is picked, proves and delivers that candidate of an earlier search."""
    begin_s = time.monotonic()
    emit = clocked = ClockedEmit(emit)
    check(settings)
    # Normalized once: a path with ".." in it may lead elsewhere once folders exist.
    out = Path(os.path.abspath(settings.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    settings = msgspec.structs.replace(settings, out=out)
    check_target(settings.out, inputs_of(settings))
    check_file(settings.model)  # before any process is started
    memory = SearchCache(settings, emit)
    known = memory.needed(folder / "known") if settings.pick else memory.recall()
    picked = find_candidate(known, settings.pick) if known is not None and settings.pick else None
    if known is not None and picked is None:
        return known
    with ExitStack() as stack:
        place = open_context(folder, stack, emit)
        search, baseline = prepare(settings, place, stack)
        if stop.is_set():
            raise nothing_proved_error("reading the model", kept=memory.on)
        if search.data.decoder is not None:
            place = replace(place, runner=replace(place.runner, runs_a_sample=search.data.decoder.tokens))
        decoder = search.data.decoder
        generation_s = 0.0 if decoder is None or decoder.generation is None else decoder.generation.source.seconds
        clock, room = clock_for(begin_s, search.limit_s, baseline.contender, generation_s), None
        if decoder is not None and clock.spent_s + clock.proof_s > clock.limit_s:
            place.notes.inform(
                f"Caches, steps and generated tokens of the source took {clock.spent_s:.0f} s of "
                f"{clock.limit_s:.0f} s, so the proof may exceed the limit. A longer one allows more candidates."
            )
        meter = open_meter(search.objective, search.profile.backends.order, stack)
        if known is not None:
            search = replace(search, baseline=known.baseline)
        elif search.objective.by_sample:
            baseline, room = choose_load(search, baseline, place, clock, stack)
            search = replace(search, baseline=baseline.candidate)
        longest_s = (_LONGEST_OF_USER if settings.time_limit_s else _LONGEST) * clock.limit_s
        ending = StopControl(stop, clock, baseline.contender, emit, memory.on, longest_s, generation_s)
        if picked is None:  # which takes as long as it takes
            clocked.control = ending

        resources = SearchResources(place.runner, place.notes, ending, baseline.contender, meter)
        inputs = variant_inputs(search, place.runner)
        variants = Variants()
        pool = CandidatePool(search, resources, variants, room)
        stack.callback(pool.close)
        terms = plan_terms_of(search)
        builder = VariantBuilder(inputs, terms, variants, place, ending, memory.of_variants(clock.limit_s))
        stack.callback(builder.close)
        if known is not None and picked is not None:
            return deliver_picked(pool, builder, picked, known)
        outcome = deliver(pool, run_races(pool, builder))
    return outcome if outcome.cut_short else memory.keep(outcome)
