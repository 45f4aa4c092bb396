"""The shapes that several families share."""

IMAGES = ((1, 16, 14, 14), (1, 64, 56, 56), (2, 64, 112, 112))
"""Batch, channels, height, width: in the middle of a small network, and at the start of a large one."""
TOKENS = ((1, 16, 128), (1, 128, 384), (4, 256, 768))
"""Batch, tokens, width: from a sentence to four paragraphs."""
