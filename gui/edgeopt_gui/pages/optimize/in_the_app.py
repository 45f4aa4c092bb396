"""The page's names for the options of a search, and messages of the core with these names."""

import re
from collections.abc import Sequence
from dataclasses import replace

from edgeopt.errors import OptionReference
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.optimize.choices import LIMITS

TITLES = {
    "data": "Data",
    "floor": "At least",
    "metric": "Metric",
    "max_drop": "Drop at most",
    "accept_unproven_drop": "Accept an unproven drop",
    "labels": "Labels in",
    "objective": "Objective",
    "shape": "Sizes of open dimensions",
    "baseline": "What runs today",
    "time_limit_s": "Time limit",
    "target": "Target",
    **{each.name: each.title for each in LIMITS},
}
"""Titles by field of the options, exactly as the page shows them."""


_CHOOSE_DATA = "Choose data"
_PASS_DATA = re.compile(r"\b(?:[Pp]ass|[Gg]ive)(?: samples| some| real ones)?(?: with)? --data\b")


def without_flags(sentence: str) -> str:
    """Returns a sentence of the core with the app's own action instead of the option `--data`."""
    return _PASS_DATA.sub(_CHOOSE_DATA, sentence)


def in_the_app(sentence: str, named: Sequence[OptionReference]) -> str:
    # Longest spelling first, because one may be a prefix of another.
    for each in sorted(named, key=lambda one: -len(str(one))):
        if each.field in TITLES:
            sentence = sentence.replace(str(each), f"'{TITLES[each.field]}' {each.value}".rstrip())
    return without_flags(sentence)


def ending_in_the_app(ending: Ending) -> Ending:
    what, next_step = (in_the_app(sentence, ending.named) for sentence in (ending.what, ending.next_step))
    return replace(ending, what=what, next_step=next_step)
