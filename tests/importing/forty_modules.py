"""Forty PyTorch modules: twenty that ONNX can say, and twenty that are wrong in ONNX, each in a way of its own.

They were written before the proof was read, but for Decaying: it replaces one that computed in NumPy, which
torch.export translates rightly. RIGHT and WRONG give the options of `edgeopt import`; a wrong module names the
shape at which it is wrong if others are right.
"""

import random
import time

import torch
from torch import nn
from torch.nn import functional

# Modules that ONNX can say


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


class Convolution(nn.Sequential):
    def __init__(self):
        layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        parts = [each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1)]
        return functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)


class Sides(nn.Module):
    def forward(self, x):
        return torch.where(x < 0, x * 0.1, torch.sqrt(x + 1))


class Clamped(nn.Module):
    def forward(self, x):
        return torch.clamp(x * 100, -50, 50), x.cumsum(1)


class Positions(nn.Module):
    """Raises beyond 48 positions, as its ONNX model does."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(48, 8))

    def forward(self, x):
        return x + self.positions[: x.shape[1]]


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(24, 3)

    def forward(self, x):
        return self.last(x.reshape(x.shape[0], -1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 12, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Groups(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv1d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())


class TrainMode(nn.Sequential):
    """Left in train mode, which is what a constructor does."""

    def __init__(self):
        super().__init__(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Softmax(-1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8, padding_idx=0)

    def forward(self, ids):
        kept = (ids != 0).unsqueeze(-1)
        return (self.words(ids) * kept).sum(1) / kept.sum(1).clamp(min=1)


def words():
    return Words(), (torch.randint(0, 30, (2, 9)),)


class Masked(nn.Module):
    def forward(self, x):
        weights = torch.softmax(x.masked_fill(x < -0.5, float("-inf")), -1)
        return torch.nan_to_num(weights)


class InPlaceOnACopy(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.mul_(2).add_(1)
        y[:, 0] = 0
        return y + x


class Best(nn.Module):
    def forward(self, x):
        values, places = x.topk(3, dim=1)
        return values, places, x.gather(1, places.flip(1))


class Integers(nn.Module):
    def forward(self, x):
        return x // 3, x % 3, torch.remainder(x, -4), x.float() / 3


def integers():
    return Integers(), (torch.randint(-50, 50, (2, 9)),)


class ConstantTable(nn.Module):
    """Builds a constant at its first call, which depends on nothing."""

    table = None

    def forward(self, x):
        if self.table is None:
            self.table = [0.5, 2.0, 4.0, 8.0]
        return x * torch.tensor(self.table)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.layer(x)) + x
        return {"last": x, "mean": x.mean(-1)}


class InstanceNormed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4), nn.Upsample(scale_factor=2, mode="bilinear"))


class PairsOfInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Bilinear(4, 5, 3)

    def forward(self, a, b):
        return self.both(a, b), torch.cat([a, b], -1).amax(-1)


# Modules that are wrong in ONNX


class BranchOnValues(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


class LargeValues(nn.Module):
    """Takes another branch for values above 20, which NumPy hides from the exporter."""

    def forward(self, x):
        return x * 2 if x.detach().numpy().max(initial=0) < 20 else x * 0


class NegativeValues(nn.Module):
    """Takes another branch if all values are negative."""

    def forward(self, x):
        return x + 1 if x.detach().numpy().max(initial=-1) >= 0 else x - 1


class BakedScale(nn.Module):
    def forward(self, x):
        return x / max(x.abs().amax().tolist(), 1.0)


class FunctionalDropout(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 1e-3)


class SmallNoise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) * 1e-7


class OwnTrainMode(nn.Module):
    """Puts its dropout in train mode in each call."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(1e-4)

    def forward(self, x):
        return self.drop.train()(x) * 2


class RunningMean(nn.Module):
    """Updates the statistics of a normalization in each call and subtracts the mean of the calls before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("var", torch.ones(8))

    def forward(self, x):
        normed = functional.batch_norm(x, self.mean, self.var, training=True, momentum=1e-7)
        return normed - self.mean


class FirstCall(nn.Module):
    """Keeps the scale of its first input."""

    scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = float(x.detach().numpy().std()) + 1
        return x / self.scale


class HundredthCall(nn.Module):
    """Answers otherwise at each hundredth call."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return x + 1 if self.calls % 100 else x - 1


class ChangesItsInput(nn.Module):
    """Doubles the caller's array."""

    def forward(self, x):
        return x.mul_(2).sum(1)


class CachedByLength(nn.Module):
    """Keeps the mean of the first input of each length."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        return x - self.cache.setdefault(x.shape[1], torch.from_numpy(x.detach().numpy().mean(1, keepdims=True)))


class LongBranch(nn.Module):
    def forward(self, x):
        return x - 1 if x.shape[1] > 64 else x + 1


class SplitBy64(nn.Module):
    def forward(self, x):
        return x.split(64, 1)[0]


class MultiplesOf8(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] % 8 == 0 else x + 1


class BatchOfThree(nn.Module):
    def forward(self, x):
        return x * 2 if len(x) == 3 else x + 1


class Decaying(nn.Linear):
    """Shrinks its weights in each call, past autograd."""

    def forward(self, x):
        self.weight.data.mul_(1 - 1e-7)
        return super().forward(x)


def decaying():
    return Decaying(16, 4)


class RareSign(nn.Module):
    """Draws from Python's random numbers, seldom to an effect."""

    def forward(self, x):
        return -x if random.random() < 1e-4 else x  # noqa: S311


class Exporting(nn.Module):
    """Does not say in the export what it does with values above 10."""

    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else torch.where(x > 10, x, x * 2)


class TimeOfDay(nn.Module):
    """Answers otherwise every other hour."""

    def forward(self, x):
        return x + int(time.time() // 3600) % 2


WIDE = ("--shape", "x=2x16")
WORDS = ("--shape", "x=2x7x8")
DYNAMIC = ("--dynamic", "batch")
LONG = ("--dynamic", "batch,seq")

RIGHT = {
    "Perceptron": ("--shape", "input=2x16", *DYNAMIC),
    "Convolution": ("--shape", "input=2x3x16x16", "--dynamic", "batch,height=2,width=3"),
    "Attention": ("--shape", "x=2x7x16", *LONG),
    "Sides": (*WIDE, *LONG),
    "Clamped": (*WIDE, *LONG),
    "Positions": (*WORDS, *LONG),
    "Flattened": ("--shape", "x=2x3x8", *DYNAMIC),
    "Recurrent": (*WORDS, *LONG),
    "Groups": ("--shape", "input=2x4x12", "--dynamic", "batch,time=2"),
    "TrainMode": ("--shape", "input=2x8", *DYNAMIC),
    "Normed": ("--shape", "input=2x7x8", *LONG),
    "words": LONG,
    "Masked": (*WIDE, *LONG),
    "InPlaceOnACopy": (*WIDE, *LONG),
    "Best": (*WIDE, *DYNAMIC),
    "integers": LONG,
    "ConstantTable": ("--shape", "x=2x4", *DYNAMIC),
    "Shared": (*WORDS, *LONG),
    "InstanceNormed": ("--shape", "input=2x2x9x9", *DYNAMIC),
    "PairsOfInputs": ("--shape", "a=2x4", "--shape", "b=2x5", *DYNAMIC),
}

# The shape of an input at which the module is wrong, where some sizes are right; or the note on what differs.
WRONG = {
    "BranchOnValues": ((*WIDE, *DYNAMIC), None),
    "LargeValues": ((*WIDE, *DYNAMIC), None),
    "NegativeValues": ((*WIDE, *DYNAMIC), None),
    "BakedScale": ((*WIDE, *DYNAMIC), None),
    "FunctionalDropout": ((*WIDE, *DYNAMIC), None),
    "SmallNoise": ((*WIDE, *DYNAMIC), None),
    "OwnTrainMode": ((*WIDE, *DYNAMIC), None),
    "RunningMean": (("--shape", "x=4x8"), None),
    "FirstCall": ((*WIDE, *DYNAMIC), None),
    "HundredthCall": ((*WIDE, *DYNAMIC), None),
    "ChangesItsInput": ((*WIDE, *DYNAMIC), "overwrites its input 'x'"),
    "CachedByLength": ((*WIDE, *LONG), None),
    "LongBranch": ((*WORDS, *LONG), (2, 65, 8)),
    "SplitBy64": ((*WORDS, *LONG), (2, 100, 8)),
    "MultiplesOf8": ((*WORDS, *LONG), (2, 24, 8)),
    "BatchOfThree": ((*WIDE, *DYNAMIC), (3, 16)),
    "decaying": (("--shape", "x=2x16", *DYNAMIC), None),
    "RareSign": ((*WIDE, *DYNAMIC), None),
    "Exporting": ((*WIDE, *DYNAMIC), None),
    "TimeOfDay": ((*WIDE, *DYNAMIC), None),
}
