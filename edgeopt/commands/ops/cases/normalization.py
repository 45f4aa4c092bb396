"""Normalization, and what makes probabilities."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import ALL, Case, between, fed, spread, weights
from edgeopt.commands.ops.cases.sizes import IMAGES, TOKENS

_SCORES = ((1, 4, 16, 16), (1, 12, 128, 128), (2, 12, 256, 256))


def _cases() -> Iterator[Case]:
    channels = [
        [fed(*s), between(0.5, 1.5, s[1]), weights(s[1]), weights(s[1]), between(0.5, 2.0, s[1])] for s in IMAGES
    ]
    yield from spread("BatchNormalization", channels, attributes={"epsilon": 1e-5})
    rows = [[fed(*s), between(0.5, 1.5, s[-1]), weights(s[-1])] for s in TOKENS]
    yield from spread("LayerNormalization", rows, "last axis", attributes={"axis": -1, "epsilon": 1e-5})
    whole = [[fed(*s), between(0.5, 1.5, *s[1:])] for s in TOKENS]
    yield from spread("LayerNormalization", whole, "two axes, no shift", attributes={"axis": 1})
    instances = [[fed(*s), between(0.5, 1.5, s[1]), weights(s[1])] for s in IMAGES]
    yield from spread("InstanceNormalization", instances, attributes={"epsilon": 1e-5})
    yield from spread("GroupNormalization", instances, attributes={"num_groups": 4}, opset=21)
    plain = [[fed(*s), between(0.5, 1.5, s[-1])] for s in TOKENS]
    yield from spread("RMSNormalization", plain, attributes={"axis": -1}, opset=23)
    scores = [[fed(*s, low=-6.0, high=6.0)] for s in _SCORES]
    yield from spread("Softmax", scores, "last axis", ALL, {"axis": -1})
    images = [[fed(*s, low=-6.0, high=6.0)] for s in IMAGES]
    yield from spread("Softmax", images, "channels", attributes={"axis": 1})
    yield from spread("LogSoftmax", scores, attributes={"axis": -1})


CASES: tuple[Case, ...] = tuple(_cases())
