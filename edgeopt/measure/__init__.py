"""Measuring: trials as processes, contests in turns, statistics."""
