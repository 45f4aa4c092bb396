"""Live curves: samples in a ring with a min/max pyramid, drawn with at most two points a pixel."""
