"""From the best of a race to the bundle: the proof, the conditions, what runs today, and what is said."""
