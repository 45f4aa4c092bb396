"""The modules of torch.nn's own documentation, each with its masks, and what they are called with."""

import torch
from torch import nn


class Masked(nn.Module):
    """Calls a module with masks by their names."""

    def __init__(self, inner, **fixed):
        super().__init__()
        self.inner, self.fixed = inner, fixed


class Padded(Masked):
    def forward(self, src, padding):
        return self.inner(src, src_key_padding_mask=padding, **self.fixed)


class Attended(Masked):
    def forward(self, query, padding):
        return self.inner(query, query, query, key_padding_mask=padding, **self.fixed)


class Decoded(Masked):
    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        return self.inner(src, tgt, tgt_mask=mask, tgt_is_causal=True)


class PackedLengths(Masked):
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.inner(packed)[0], batch_first=True)[0]


def padding():
    return torch.arange(7)[None] >= torch.tensor([[7], [5]])


def rnn():
    return nn.RNN(10, 20, 2), (torch.randn(5, 3, 10), torch.randn(2, 3, 20))


def gru():
    return nn.GRU(10, 20, 2), (torch.randn(5, 3, 10), torch.randn(2, 3, 20))


def lstm():
    return nn.LSTM(10, 20, 2), (torch.randn(5, 3, 10),)


def bidirectional():
    return nn.LSTM(10, 20, 2, bidirectional=True, batch_first=True), (torch.randn(3, 5, 10),)


def packed():
    return PackedLengths(nn.GRU(10, 20, batch_first=True)), (torch.randn(2, 7, 10), torch.tensor([7, 5]))


def rnn_cell():
    return nn.RNNCell(10, 20), (torch.randn(3, 10), torch.randn(3, 20))


def attention():
    return Attended(nn.MultiheadAttention(16, 2, batch_first=True)), (torch.randn(2, 7, 16), padding())


def attention_without_weights():
    inner = nn.MultiheadAttention(16, 2, batch_first=True)
    return Attended(inner, need_weights=False), (torch.randn(2, 7, 16), padding())


def encoder_layer():
    inner = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return Padded(inner), (torch.randn(2, 7, 16), padding())


def encoder():
    """With a padding mask and default settings."""
    inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    return Padded(inner), (torch.randn(2, 7, 16), padding())


def encoder_without_nesting():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Padded(inner), (torch.randn(2, 7, 16), padding())


def causal_encoder():
    inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    return Padded(inner, mask=mask == float("-inf"), is_causal=True), (torch.randn(2, 7, 16), padding())


def decoder_layer():
    return nn.TransformerDecoderLayer(16, 2, 32), (torch.randn(5, 2, 16), torch.randn(7, 2, 16))


def transformer():
    return nn.Transformer(16, 2, 1, 1, 32), (torch.randn(7, 2, 16), torch.randn(5, 2, 16))


def causal_transformer():
    inner = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    return Decoded(inner), (torch.randn(2, 7, 16), torch.randn(2, 5, 16))
