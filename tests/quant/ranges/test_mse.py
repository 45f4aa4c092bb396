import numpy as np

from edgeopt.quant.ranges import METHODS, MSE, range_of
from edgeopt.quant.records import QuantSettings


def error_of(values, kept):
    step = (kept.high - kept.low) / 255
    zero = round(-kept.low / step)
    quantized = (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step
    return float(((quantized - values) ** 2).sum())


def test_no_other_method_loses_less(curve, seen_of):
    seen = seen_of(curve)
    values = curve.astype(np.float32)
    least = error_of(values, range_of(MSE, seen, QuantSettings()))
    for method in METHODS:
        other = error_of(values, range_of(method, seen, QuantSettings()))
        assert least <= other * 1.1 + 1e-9, method.name


def test_it_is_about_as_good_as_trying_every_range(seen_of):
    values = np.random.default_rng(1).standard_t(3, 5_000).astype(np.float32)
    seen = seen_of(values)
    found = error_of(values, range_of(MSE, seen, QuantSettings()))
    shares = np.linspace(0.05, 1, 60)
    type_of = type(range_of(MSE, seen, QuantSettings()))
    best = min(error_of(values, type_of(seen.low * a, seen.high * b)) for a in shares for b in shares)
    assert found <= best * 1.05
