"""Reports as charts for a terminal."""
