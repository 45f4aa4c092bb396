"""Generate: language models answer prompts one at a time, as one user asks them."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from edgeopt.bundle.deployment import Cache
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress
from edgeopt.measure.contender import Contender, Side, enter, failed
from edgeopt.measure.instruments.gauges import Gauges
from edgeopt.measure.messages import Generate, Generated, Memory
from edgeopt.measure.schedules import GENERATING
from edgeopt.measure.workloads.loop import LoopMember, comparisons, require_one, run_members
from edgeopt.measure.workloads.records import GenerateReport, GenerateRules, GenerateSide
from edgeopt.workers.host import TrialHost

_SLICE_MS = 400.0
"""Time of the answers of one side in one round; a longer answer is completed."""
_KEPT_ANSWERS = 20_000
_HINT = "Run it in its own runtime for details. If the context of the model is shorter, ask for fewer tokens."


class Prompts(NamedTuple):
    """Prompts of equal length as token ids, and the cache of each side's model."""

    rows: tuple[tuple[int, ...], ...]
    caches: tuple[Cache, ...]


class _Taken(NamedTuple):
    """Medians of one side in one round."""

    first_token_ms: float
    token_ms: float


@dataclass(slots=True, kw_only=True)
class _Answering(LoopMember):
    """One side while it is measured."""

    cache: Cache
    contender: Contender | None = None
    first_tokens_ms: list[float] = field(default_factory=list)
    tokens_ms: list[float] = field(default_factory=list)
    memory: Memory | None = None
    answered: set[int] = field(default_factory=set)
    """Places of the prompts whose answers count."""


def run_generate(
    host: TrialHost, sides: Sequence[Side], prompts: Prompts, rules: GenerateRules, emit: Emit
) -> GenerateReport:
    """Measures the answers of the sides interleaved; raises TrialError if none can run."""
    begin = time.monotonic()
    gauges = Gauges(emit)
    members = [_Answering(side.name, cache=each) for side, each in zip(sides, prompts.caches, strict=True)]

    def emit_progress(number: int, _count: int) -> None:
        emit(Progress("measuring", "answers, interleaved", number, rules.rounds))

    with ExitStack() as stack:
        for member, side in zip(members, sides, strict=True):
            emit(Progress("loading", side.name))
            try:
                member.contender = enter(host, side.name, side.load, rules.load_patience_s)
                stack.callback(member.contender.close)
                _answer(member, prompts, rules, gauges, 0.0)  # not counted: the first answer is slower
            except TrialError as error:
                member.failure = error.message
        require_one({member.side: member.failure for member in members}, _HINT)
        end_s = time.monotonic() + rules.time_limit_s

        def turn(member: _Answering) -> _Taken:
            found = _answer(member, prompts, rules, gauges, _SLICE_MS)
            first = len(member.rounds)
            member.answered |= {(first + each) % len(prompts.rows) for each in range(len(found.tokens_ms))}
            member.first_tokens_ms += found.first_tokens_ms
            member.tokens_ms += found.tokens_ms
            member.memory = found.memory
            return _Taken(float(np.median(found.first_tokens_ms)), float(np.median(found.tokens_ms)))

        watch = run_members(
            members,
            sides,
            GENERATING.limited(rules.rounds),
            turn,
            emit_progress,
            is_late=lambda: time.monotonic() > end_s,
        )
    return GenerateReport(
        sides=tuple(map(_side, members)),
        prompt_tokens=rules.prompt_tokens,
        new_tokens=rules.new_tokens,
        comparisons=comparisons(members, lambda taken: taken.token_ms, GENERATING),
        first_comparisons=comparisons(members, lambda taken: taken.first_token_ms, GENERATING),
        rounds=max(len(member.rounds) for member in members),
        prompts=min((len(member.answered) for member in members if member.answered), default=0),
        measured_while=watch.sentence,
        seconds=time.monotonic() - begin,
    )


def _answer(
    member: _Answering, prompts: Prompts, rules: GenerateRules, gauges: Gauges, slice_ms: float
) -> Generated:
    """Returns the times of some answers; raises TrialError if the side fails."""
    contender = member.contender
    assert contender is not None  # noqa: S101 - who has not failed was loaded
    request = Generate(member.cache, prompts.rows, len(member.rounds), rules.new_tokens, slice_ms)
    # The first run was that of a prompt, which takes longer than a token. An answer may begin as the slice ends.
    patience_s = contender.patience_s(2 * rules.new_tokens) + slice_ms / 1e3
    answer = gauges.ask(contender.child, request, patience_s, member.name)
    if not isinstance(answer, Generated):
        raise failed(answer)
    gauges.emit_metric("first_token_ms", float(np.median(answer.first_tokens_ms)), member.name)
    gauges.emit_metric("tokens_per_s", 1e3 / float(np.median(answer.tokens_ms)), member.name)
    return answer


def _side(member: _Answering) -> GenerateSide:
    contender, answers = member.contender, len(member.tokens_ms)
    if contender is None or not answers:
        return GenerateSide(member.name, failure=member.failure)
    token_ms = float(np.median(member.tokens_ms))
    kept = slice(None, None, -(-answers // _KEPT_ANSWERS))
    return GenerateSide(
        name=member.name,
        answers=answers,
        first_token_ms=float(np.median(member.first_tokens_ms)),
        token_ms=token_ms,
        tokens_per_s=1e3 / token_ms,
        load_ms=contender.loaded.load_ms,
        memory=member.memory,
        first_tokens_ms=tuple(round(value, 6) for value in member.first_tokens_ms[kept]),
        tokens_ms=tuple(round(value, 6) for value in member.tokens_ms[kept]),
        failure=member.failure,
    )
