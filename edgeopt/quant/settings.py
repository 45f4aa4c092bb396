"""How to quantize for a target; from the target profile's [quantization] table and the command line."""

import msgspec


class QuantSettings(msgspec.Struct, frozen=True):
    activation_type: str = "uint8"
    weight_type: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    """7-bit weights: without VNNI or dotprod, pairs of 8-bit products overflow 16 bits and saturate."""
    symmetric_activations: bool = False
    """The zero point of activations is that of their type's middle."""
    calibration: str = "minmax"
    """How the ranges of activations are found; a name of `edgeopt.quant.ranges.METHODS`."""
    percentile: float = 99.99
    """For the calibration of that name: what share of the values stays inside the range, in percent."""
    block_size: int = 64
    """Consecutive weights that share a scale, if a scheme has blocks."""
    group_size: int = 64
    """Consecutive activations that share a scale, if a backend quantizes them by groups."""
