"""A model that hears its mask, and sequences for it."""

import numpy as np

HEARD = """g (int64[b,n] ids, int64[b,n] attention_mask) => (float[b,2] y)
    <float[4,2] table = {0, 1, 2, 3, 4, 5, 6, 7}, int64[1] one = {1}> {
    rows = Gather (table, ids)
    held = Cast <to = 1> (attention_mask)
    two = Constant <value_ints = [2]> ()
    wide = Unsqueeze (held, two)
    seen = Mul (rows, wide)
    y = ReduceSum <keepdims = 0> (seen, one)
}"""


def feeds(*kept, length=40):
    """A row for each, of which so many places hold something."""
    ids = np.arange(len(kept) * length).reshape(len(kept), length) % 4
    mask = np.stack([np.arange(length) < each for each in kept]).astype(np.int64)
    return {"ids": ids, "attention_mask": mask}
