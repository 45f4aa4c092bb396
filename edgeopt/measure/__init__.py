"""Measuring: trials as processes, interleaved contests, statistics."""
