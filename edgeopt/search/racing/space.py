"""Which candidates there are: variants by backends by runtime options, from the target profile."""

from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.backends import option_kinds
from edgeopt.search.making.recipes import RECIPES, recipe_named
from edgeopt.search.outcome import Candidate, RuntimeOptions

# They are screened for accuracy from the start, each where its recipe says, and not tuned late.
NUMERIC = frozenset(r.numeric for r in RECIPES)

Space = Mapping[str, Mapping[str, Sequence[str | int | float | bool]]]
"""Backend, option, values; the first value is where the search starts."""

Settled = Mapping[str, Mapping[str, str | int | float | bool]]
"""Backend, option, value: what every candidate has."""


def baseline(backend: str) -> Candidate:
    """What a user has today: the model as it came, in a runtime's defaults."""
    return Candidate("source", backend)


def first_candidates(
    variant: str,
    backends: Sequence[str],
    space: Space,
    shapes: dict[str, list[int]] | None,
    threads: int | None = None,
    settled: Settled | None = None,
) -> list[Candidate]:
    """A variant on each backend that reads it, once for each value of the options that change the numbers.

    `threads` is given where a runtime's own choice would be wrong: they look at the cores that there are, not at
    those that a container allows.
    """
    found = []
    for backend in backends:
        if backend not in recipe_named(variant).backends:
            continue
        fixed: RuntimeOptions = {"shapes": shapes} if shapes and backend.startswith("openvino") else {}
        if threads is not None and "threads" in option_kinds(backend):
            fixed["threads"] = threads
        chosen = (settled or {}).get(backend, {})
        fixed |= {option: value for option, value in chosen.items() if option not in NUMERIC}
        numeric = recipe_named(variant).numeric
        values = space.get(backend, {}).get(numeric, ())
        found += [Candidate(variant, backend, {**fixed, numeric: v}) for v in values] or [
            Candidate(variant, backend, fixed)
        ]
    return found


def other_threads(candidate: Candidate, space: Space) -> list[Candidate]:
    """The same candidate with each other number of threads."""
    # The first value is where the search started: every candidate with it is there already.
    others = space.get(candidate.backend, {}).get("threads", ())[1:]
    return [
        msgspec.structs.replace(candidate, options={**candidate.options, "threads": count})
        for count in others
        if candidate.options.get("threads") != count
    ]
