"""What a trial is made of: what it can run, its time slices, and its memory by phase."""
