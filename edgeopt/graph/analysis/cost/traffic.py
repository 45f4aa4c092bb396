"""Bytes that an operator must at least read and write: its inputs once and its outputs once.

- What only renames or gives another shape to the same bytes (Reshape, Squeeze, Unsqueeze, Flatten, Identity) moves
  none: runtimes let the result lie where the input lies.
- What takes a part of a tensor (Gather, Slice, an embedding) reads that part, and its indices.
- Shape and Size read nothing.
- What puts a part into a tensor (ScatterND) copies the rest, as it may not change its input.
"""

from edgeopt.graph.analysis.cost.call import Call

ALIASES = (
    *("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "ExpandDims"),
    *("Optional", "OptionalGetElement"),
)
"""Their output is their input under another name; `Constant` is a weight under another name."""
ONLY_SHAPES = ("Shape", "Size", "SequenceLength", "OptionalHasElement", "EyeLike", "RandomNormalLike",
                "RandomUniformLike")  # fmt: skip
# The places of the inputs that are read in part.
_READ_IN_PART = {
    **dict.fromkeys(
        (
            *(
                "Gather",
                "GatherElements",
                "GatherND",
                "Slice",
                "Compress",
                "CenterCropPad",
                "ArrayFeatureExtractor",
            ),
            *("TorchEmbedding", "GatherBlockQuantized", "SequenceAt"),
        ),
        (0,),
    ),
    "EmbedLayerNormalization": (2, 3, 4),
}


def is_alias(call: Call) -> bool:
    """Whether the first output is the first input under another name (or shape)."""
    if call.operator != "Dropout":
        return call.operator in ALIASES
    training = call.inputs[2] if call.has(2) else None
    return training is None or training.values == (0,)


def read_bytes(call: Call) -> int:
    if call.operator == "Constant" or call.operator in ONLY_SHAPES or is_alias(call):
        return 0
    parts = _READ_IN_PART.get(call.operator, ())
    total = 0
    for place, operand in enumerate(call.inputs):
        if operand is None:
            continue
        if place in parts:
            taken = call.output().size_bytes()
            total += taken if operand.shape is None else min(operand.size_bytes(), taken)
        else:
            total += operand.size_bytes()
    return total


def written_bytes(call: Call) -> int:
    if call.operator == "Constant" or is_alias(call):
        return 0
    return sum(operand.size_bytes() for operand in call.outputs if operand is not None)
