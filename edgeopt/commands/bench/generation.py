"""Sides that are language models: the prompts that all of them answer, and the first run of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt import units
from edgeopt.bundle.plan import limits_in
from edgeopt.bundle.runtime.locate import SessionPlace
from edgeopt.data.samples import save_samples
from edgeopt.errors import OptionReference, UsageError
from edgeopt.measure.contender import Side
from edgeopt.measure.messages import Described
from edgeopt.measure.workloads.generate import Prompts
from edgeopt.measure.workloads.records import GenerateRules
from edgeopt.pipeline.decoder.texts import Texts, read_texts
from edgeopt.pipeline.decoder.workloads import DecoderModel, check_context, decoder_in
from edgeopt.pipeline.shapes.sized import together

_DUTY = OptionReference("duty", "generate")


class AnswerSettings(NamedTuple):
    """Settings of answers to measure, and whether only these are acceptable."""

    rules: GenerateRules
    required: bool


class GenerationPlan(NamedTuple):
    """Prompts to answer, and their source in words."""

    rules: GenerateRules
    prompts: Prompts
    source: str
    """Source of the prompts."""
    warning: str = ""
    """Warning that the prompts are not those of the data."""

    def words(self, answered: int | None = None) -> str:
        """Describes the prompts; `answered` is the number of those whose answers were measured (default: all)."""
        rows = self.prompts.rows
        some = "" if answered is None or answered == len(rows) else f"{answered} of "
        return f"{some}{units.count(len(rows), 'prompt')} of {len(rows[0])} tokens from {self.source}"


def decoders_of(
    settings: AnswerSettings,
    names: Sequence[str],
    places: Sequence[SessionPlace | None],
    described: Sequence[Described | None],
) -> list[DecoderModel] | None:
    """Returns the decoder of each side, or None if not all are decoders; raises UsageError if they must be."""
    found: list[DecoderModel] = []
    for name, place, ports in zip(names, places, described, strict=True):
        decoder = None if place is None or ports is None else _decoder(place, ports)
        if decoder is not None:
            found.append(decoder)
        elif settings.required:
            raise UsageError(
                f"{_DUTY} needs language models with a cache, which '{name}' is not.",
                f"Leave out {_DUTY} and the numbers of tokens. For the ports of such a model, see "
                "docs/language-models.md.",
                [_DUTY],
            )
        else:
            return None
    return found


def _decoder(place: SessionPlace, ports: Described) -> DecoderModel | None:
    deployment = place.deployment
    if deployment is None:
        return decoder_in(ports, limits_in(place.model))
    limits = {each.name: each.limits for each in deployment.inputs if each.limits}
    return decoder_in(ports, limits, declared=deployment.cache)


def plan_generation(
    settings: AnswerSettings, decoders: Sequence[DecoderModel], text: Path, data: Path | None
) -> GenerationPlan:
    """Returns the plan; `text` is the folder of the first side's tokenizer.

    Raises UsageError for too many tokens, and DataError for unsuitable data.
    """
    rules = settings.rules
    for each in decoders:
        check_context(each.cache, rules.prompt_tokens, rules.new_tokens)
    vocabulary = min(each.vocabulary for each in decoders)
    cache = decoders[0].cache
    texts = read_texts(text, data, cache.tokens, rules.prompt_tokens, vocabulary, cache.pairs)
    prompts = Prompts(texts.rows, tuple(each.cache for each in decoders))
    return GenerationPlan(rules, prompts, _source(texts, data), texts.warning if data is not None else "")


def with_first_runs(sides: Sequence[Side], decoders: Sequence[DecoderModel], plan: GenerationPlan) -> list[Side]:
    """Returns the sides with a sample for their first run: the first prompt with an empty cache.

    Each has its own, because the types of two caches may differ.
    """
    found = []
    for number, (side, decoder) in enumerate(zip(sides, decoders, strict=True)):
        folder = Path(f"{side.load.samples_path}-{number}")
        save_samples(together([decoder.feeds(plan.prompts.rows[0])]), folder)
        load = msgspec.structs.replace(side.load, samples_path=str(folder))
        found.append(msgspec.structs.replace(side, load=load))
    return found


def _source(texts: Texts, data: Path | None) -> str:
    sources = {"data": data.name if data is not None else "", "sample": "a text of edgeopt"}
    return sources.get(texts.source, "random tokens")
