"""Scripts that run in the user's environment, where edgeopt is not installed; one file for each framework."""
