"""Whether a rewritten model answers as its source does, in every regime of inputs: rounding told from error."""
