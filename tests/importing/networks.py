"""PyTorch modules of the tests; they run in an environment with torch."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 5)

    def forward(self, image):
        return {"logits": self.last(self.drop(torch.relu(self.norm(self.conv(image))).mean((2, 3))))}


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids, mask=None):
        return self.encoder(self.words(ids), mask)


def text():
    return Text(), (torch.randint(0, 50, (1, 7)),)


class Branch(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


class Dropping(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x + self.count


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)


class WithoutBias(nn.Linear):
    """Loses its bias in the export."""

    def forward(self, x):
        return x @ self.weight.T if torch.compiler.is_exporting() else super().forward(x)


class Swapping(nn.Linear):
    """Swaps two axes in the export."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2) if torch.compiler.is_exporting() else x)


def wrong(kind):
    first, last = nn.Linear(4, 4), nn.Linear(4, 2)
    return nn.Sequential(first, kind(4, 4), nn.ReLU(), last), (torch.randn(1, 4, 4),)


def without_bias():
    return wrong(WithoutBias)


def swapping():
    return wrong(Swapping)


def needs(count):
    return count


number = 3

if __name__ == "__main__":  # writes the files of the tests
    net, image = Net().eval(), torch.randn(2, 3, 8, 8)
    dims = {"image": {0: torch.export.Dim("batch", min=1, max=64)}}
    torch.export.save(torch.export.export(net, (), {"image": image}, dynamic_shapes=dims), "program.pt2")
    torch.jit.save(torch.jit.script(nn.Sequential(net.conv, net.norm, nn.ReLU())), "script.pt")
    torch.save(net.state_dict(), "weights.pt")
