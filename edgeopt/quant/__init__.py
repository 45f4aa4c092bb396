"""Forms of a model in fewer bits: its layers, the ranges of their values, and each form written out as a graph."""
