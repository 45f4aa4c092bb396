"""Who says what is right: the baseline, or its runtime told to compute in full precision.

The baseline runs with the defaults of its runtime, which is what users have today: speed is judged by that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeopt.backends.full_precision import full_precision
from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.messages import Load
from edgeopt.search.racing.screen import Course


@contextmanager
def judge_for(course: Course, baseline: Contender, backend: str, model: Path) -> Iterator[Contender]:
    """The baseline itself where its defaults are exact; raises TrialError where the other one falls."""
    told = full_precision(backend)
    if not told:
        yield baseline
        return
    load = Load(backend, course.host.put(model), dict(told), course.host.put(course.samples_path))
    judge = enter(course.host, "reference", load)
    try:
        yield judge
    finally:
        judge.close()
