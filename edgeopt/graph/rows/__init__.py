"""Analysis of whether the rows of a batch mix, or each gives what it gives in a run of its own."""
