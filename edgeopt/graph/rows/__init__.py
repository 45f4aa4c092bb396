"""Whether each row of a batch gives what it gives in a run of its own, decided by the graph of the model."""
