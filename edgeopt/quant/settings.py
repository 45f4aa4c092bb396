"""How to quantize for a target; comes from the target profile's [quantization] table."""

import msgspec

# More samples move the ranges little and cost calibration time; the libraries' own examples use 100 to 300.
MOST_CALIBRATION_SAMPLES = 100


class QuantSettings(msgspec.Struct, frozen=True):
    activation_type: str = "uint8"
    weight_type: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    """7-bit weights: without VNNI or dotprod, pairs of 8-bit products overflow 16 bits and saturate."""
    calibration: str = "minmax"
    """How the ranges of activations are found: `minmax` or `percentile`."""
