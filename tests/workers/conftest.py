"""Worker processes that are closed at the end, and a way to wait until a process is gone."""

from tests.measure.conftest import ends, load_null, middle_process, samples, start

__all__ = ["ends", "load_null", "middle_process", "samples", "start"]
