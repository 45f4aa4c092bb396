"""The choices that save the most time within a noise budget: an integer linear program, solved by HiGHS."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from edgeopt.errors import MissingExtraError
from edgeopt.quant.plan.problem import Problem

# A hard problem ends with the best choices found so far. The count of nodes ends it first, because the same
# problem must get the same choices on a busy machine.
_MOST_NODES = 50
_LIMIT_S = 10.0
# More than the tolerance of the solver, so that the choices keep the budget exactly.
_MARGIN = 1e-5
# What a change must save, as a share of the largest saving: of equal choices, the fewest and most exact.
_TIE = 1e-6


def solve(problem: Problem, budget: float, *, limit_s: float = _LIMIT_S) -> dict[str, str]:
    """The choices that save the most with no output's noise above the budget; none if float itself is above it."""
    try:
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ModuleNotFoundError:
        raise MissingExtraError("optimize", "Planning precisions") from None

    room = budget * (1 - _MARGIN) - problem.base
    options = [each for some in problem.options for each in some if (each.noise <= room).all()]
    saves = np.array([option.saves_ms for option in options])
    largest = np.abs(saves).max(initial=0.0)
    if not largest or (room < 0).any():
        return {}
    layers, borders, many = len(problem.layers), len(problem.borders), len(options)
    # A variable for each option, and one for each border: whether only one of its layers changes.
    owners = [option.layer for option in options]
    changes = sparse.coo_array((np.ones(many), (owners, range(many))), shape=(layers, many))
    ends = [end for a, b, _ in problem.borders for end in (a, b)]
    signs = np.tile([1.0, -1.0], borders)
    differs = sparse.coo_array((signs, (np.repeat(range(borders), 2), ends)), shape=(borders, layers)) @ changes
    apart = sparse.eye_array(borders)
    noise = np.array([option.noise for option in options])
    shares = np.divide(noise, room, out=np.zeros_like(noise), where=noise > 0)
    rows = [[changes, None], [differs, -apart], [-differs, -apart], [sparse.coo_array(shares.T), None]]
    limits = np.repeat([1.0, 0.0, 1.0], [layers, 2 * borders, len(room)])
    ties = _TIE * (1 + shares.max(axis=1, initial=0.0))
    with _silent_stdout():
        found = milp(
            [*(ties - saves / largest), *(cost / largest for *_, cost in problem.borders)],
            integrality=1,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(sparse.block_array(rows), ub=limits),
            # These problems are small: presolve takes longer than it saves.
            options={"presolve": False, "mip_rel_gap": 0.0, "node_limit": _MOST_NODES, "time_limit": limit_s},
        )
    taken = [] if found.x is None else found.x[:many] > 0.5
    return {problem.layers[each.layer]: each.form for each, yes in zip(options, taken, strict=False) if yes}


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """HiGHS prints a line for each solution that it repairs, whatever its options; stdout may be for JSON only."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    stdout, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        flush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(nowhere)
