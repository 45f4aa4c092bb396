"""The parts of a trial: the models that it can run, its time slices, and its memory by phase."""
