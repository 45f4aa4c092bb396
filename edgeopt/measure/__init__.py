"""Measurement: trials as processes, interleaved contests, statistics, instruments, exactness."""
