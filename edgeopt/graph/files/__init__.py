"""Models as files: what they are, whether they are whole and in order, how they are written."""
