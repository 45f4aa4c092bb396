"""Layers with made-up costs and savings, and the best choice among all of them."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.quant.plan.solve import Border, decibels, problem_from
from edgeopt.quant.records import Layer, LayerGain, Sensitivity


def made(seed, count=10, forms=("int8",), outputs=1, borders=0):
    """Random layers; a finer form costs less and saves less. `borders`: so many besides those of a chain."""
    random = np.random.default_rng(seed)
    names = [f"layer {k}" for k in range(count)]
    layers = tuple(Layer(name, "Conv", (name,), f"{name} weights", (), (), 10**6) for name in names)
    sensitivities, gains = [], []
    for name in names:
        for place, form in enumerate(forms):
            noise = 10 ** random.uniform(-5, -2, outputs) * 0.1**place
            sensitivities.append(Sensitivity(name, form, tuple(noise.tolist()), decibels(float(noise.max()))))
            float_ms = random.uniform(0.01, 1)
            gains.append(LayerGain(name, form, float_ms, float_ms * random.uniform(0.3 + 0.3 * place, 1.1)))
    pairs = []
    if borders:
        pairs = [Border(a, b, random.uniform(0, 0.3)) for a, b in itertools.pairwise(names)]
        some = random.integers(0, count, (borders, 2))
        pairs += [Border(names[a], names[b], random.uniform(0, 0.2)) for a, b in some if a != b]
    parts = {
        "layers": layers,
        "sensitivities": tuple(sensitivities),
        "gains": tuple(gains),
        "borders": tuple(pairs),
    }
    return SimpleNamespace(**parts, problem=problem_from(*parts.values()))


@pytest.fixture
def random_problem():
    return made


@pytest.fixture
def max_saved():
    """The most that any choice within a budget saves, by trying all of them."""

    def search(problem, budget):
        best = 0.0
        for combination in itertools.product(*[(None, *some) for some in problem.options]):
            choices = {
                name: option.scheme for name, option in zip(problem.layers, combination, strict=True) if option
            }
            if problem.worst(choices) <= budget:
                best = max(best, problem.saved_ms(choices))
        return best

    return search
