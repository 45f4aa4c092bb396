"""Proof that a decoder generates as its model says: with the cache as without it, and without new loops."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt import units
from edgeopt.backends.base import Array
from edgeopt.bundle.deployment import Cache
from edgeopt.data.judging.goals import BUDGETS_DB, KL, TOKEN_FLOORS, Goal
from edgeopt.data.judging.metrics import metric_named
from edgeopt.errors import TrialError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.contender import Contender, ask, failed
from edgeopt.measure.messages import Decode, Decoded, GivenInputs
from edgeopt.measure.trials.decoding import FORM_TEXTS, FORMS, FULL
from edgeopt.pipeline.outcome import GenerationProof

STEP_DB = 90.0
"""Least agreement of a float decoder's cached run with a full one, in dB, at each step."""
PROMPTS, GREEDY_TOKENS = 16, 128
_LONGEST_CYCLE, _FEWEST_LOOPED = 8, 24
LOOP_CHANCE = 0.05
"""Probability that as many new loops appear by chance, below which a bundle is refused."""
# Values of a few hundred positions scatter around those of all.
_SLACK = 2.0


class GenerationRun(NamedTuple):
    """Logits of the ends of some texts, by text and form, and what was generated after their beginnings."""

    logits: Mapping[str, Array]
    decoded: Decoded
    seconds: float = 0.0
    """Time that all of it took."""

    def of(self, form: str) -> list[dict[str, Array]]:
        """Returns the logits by text, as outputs of runs."""
        return [{"logits": self.logits[name]} for name in sorted(self.logits) if name.endswith(f"/{form}")]


class GenerationTask(NamedTuple):
    """Texts of a decoder to generate from, and the source model's own run, which is the reference."""

    cache: Cache
    texts: tuple[tuple[int, ...], ...]
    prompt_tokens: int
    source: GenerationRun
    given: GivenInputs | None = None

    @property
    def most_tokens(self) -> int:
        """Returns the number of tokens that are generated after each prompt if there is time; 0: up to its end."""
        if self.given is not None:
            return 0
        return _most_tokens(self.cache, self.texts, self.prompt_tokens, GREEDY_TOKENS)


def _most_tokens(cache: Cache, texts: Sequence[tuple[int, ...]], prompt_tokens: int, maximum: int) -> int:
    # Without a known context, it is not known whether the model takes more tokens than the texts have.
    context = cache.max_context_tokens or min(map(len, texts))
    return max(1, min(maximum, context - prompt_tokens))


def run_generation(  # noqa: PLR0913 - the limits are optional and given by name
    contender: Contender,
    cache: Cache,
    texts: Sequence[tuple[int, ...]],
    prompt_tokens: int,
    folder: Path,
    given: GivenInputs | None = None,
    *,
    max_tokens: int = GREEDY_TOKENS,
    limit_s: float | None = None,
) -> GenerationRun:
    """Runs the texts in a trial; raises TrialError if it fails.

    After `limit_s`, generation ends with fewer tokens: see `Decode`.
    """
    greedy = _most_tokens(cache, texts, prompt_tokens, max_tokens)
    file, begin_s = folder / "decoded.npz", time.monotonic()
    request = Decode(cache, tuple(texts), prompt_tokens, greedy, str(file), given, limit_s)
    # A step of a batch counts as a run for each of its sequences.
    runs = sum(map(len, texts[:FORM_TEXTS])) * (len(FORMS) + 1) + (prompt_tokens + greedy) * len(texts)
    answer = ask(contender.child, request, contender.patience_s(runs))
    if not isinstance(answer, Decoded):
        raise failed(answer)
    with np.load(file, allow_pickle=False) as archive:
        logits = {name: archive[name] for name in archive.files}
    return GenerationRun(logits, answer, time.monotonic() - begin_s)


def check_source(run: GenerationRun) -> str:
    """Returns why the cache of the source model is wrong, as a sentence; empty if it is right."""
    worst = _lowest_db(run)
    form = min(worst, key=lambda name: worst[name])
    if worst[form] >= STEP_DB:
        return ""
    return (
        f"The model computes other logits with its cache than without it: {form} steps agree with a full run to "
        f"{worst[form]:.1f} dB; {STEP_DB:g} dB are required."
    )


def prove_generation(
    contender: Contender,
    task: GenerationTask,
    goal: Goal,
    snr_db: float,
    folder: Path,
    limit_s: float | None = None,
) -> GenerationProof:
    """Returns the proof of a bundle; raises TrialError if a form differs from a full run, or if it loops.

    A bundle that agrees with the source to 80 dB must agree with itself to 90 dB at each step. Kernels of fewer
    bits round by chunks, so the logits of each form are compared with the source's instead.
    """
    run = run_generation(
        contender, task.cache, task.texts, task.prompt_tokens, folder, task.given, limit_s=limit_s
    )
    lowest = _lowest_db(run)
    limit = _SLACK * (goal.floor if goal.metric == KL and goal.floor is not None else TOKEN_FLOORS[KL])
    reference, metric = task.source.of(FULL), metric_named(KL)
    divergences = {form: metric.judge(run.of(form), reference, None).value for form in lowest}
    form = min(lowest, key=lambda name: lowest[name])
    if snr_db >= BUDGETS_DB["exact"] and lowest[form] < STEP_DB:
        raise TrialError(
            f"{form} steps agree with a full run to {lowest[form]:.1f} dB; {STEP_DB:g} dB are required"
        )
    form = max(divergences, key=lambda name: divergences[name])
    if not divergences[form] <= limit:
        raise TrialError(
            f"logits of {form} steps diverge from the source by {divergences[form]:.3g}; at most {limit:.3g} "
            "is allowed"
        )
    # A runtime that takes no batch generates after fewer prompts.
    pairs = list(zip(run.decoded.generated, task.source.decoded.generated, strict=False))
    if task.given is None:  # then only time ends a text early, and both are compared up to there
        lengths = [min(map(len, pair)) for pair in pairs]
        pairs = [(one[:size], other[:size]) for (one, other), size in zip(pairs, lengths, strict=True)]
    looped, source_looped = ([is_loop(each) for each in made] for made in zip(*pairs, strict=True))
    loops, source_loops = sum(looped), sum(source_looped)
    if (chance := chance_of_loops(looped, source_looped)) < LOOP_CHANCE:
        raise TrialError(
            f"its text loops after {loops} of {len(looped)} prompts, the source's after {source_loops}; the "
            f"probability of this by chance is {units.percent(chance)}"
        )
    return GenerationProof(
        prompts=len(looped),
        texts=len(run.of(FULL)),
        prompt_tokens=task.prompt_tokens,
        steps=min(map(len, run.logits.values())),
        greedy_tokens=max(len(one) for one, _ in pairs),
        most_tokens=task.most_tokens,
        lowest_db=lowest,
        divergences=divergences,
        loops=loops,
        source_loops=source_loops,
        same_tokens=sum(_equal_begin(*pair) for pair in pairs),
        same_prompts=sum(one == other for one, other in pairs),
        is_alone=len(run.decoded.generated) < len(task.source.decoded.generated),
        first_token_ms=run.decoded.first_token_ms,
        token_ms=run.decoded.token_ms,
        source_first_token_ms=task.source.decoded.first_token_ms,
        source_token_ms=task.source.decoded.token_ms,
    )


def chance_of_loops(looped: Sequence[bool], source_looped: Sequence[bool]) -> float:
    """Returns the probability of as many new loops if losing a loop is as likely as getting one: a sign test.

    Rounding alone moves a greedy text to another one, with or without a loop.
    """
    pairs = [(one, other) for one, other in zip(looped, source_looped, strict=True) if one != other]
    new = sum(one for one, _ in pairs)
    as_many: int = sum(math.comb(len(pairs), k) for k in range(new, len(pairs) + 1))
    return as_many / float(2 ** len(pairs))


def is_loop(tokens: Sequence[int]) -> bool:
    """Whether the last 24 tokens repeat a cycle of at most 8."""
    end = list(tokens[-_FEWEST_LOOPED:])
    if len(end) < _FEWEST_LOOPED:
        return False
    return any(end[size:] == end[:-size] for size in range(1, _LONGEST_CYCLE + 1))


def _lowest_db(run: GenerationRun) -> dict[str, float]:
    """Returns the lowest ratio in dB of a step with its full run, by form."""
    found: dict[str, float] = {}
    for form in FORMS:
        for one, other in zip(run.of(FULL), run.of(form), strict=False):
            for expected, result in zip(one["logits"], other["logits"], strict=True):
                step = compare_outputs([{"logits": expected}], [{"logits": result}])
                snr_db = -np.inf if step.problem else step.snr_db
                found[form] = min(found.get(form, np.inf), float(snr_db))
    return found


def _equal_begin(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Returns the number of equal tokens before the first difference."""
    pairs = enumerate(zip(tokens, others, strict=False))
    return next((k for k, (one, other) in pairs if one != other), min(len(tokens), len(others)))
