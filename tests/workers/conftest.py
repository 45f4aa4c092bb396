"""Worker processes that are closed at the end."""

from tests.measure.conftest import load_null, middle_process, samples, start

__all__ = ["load_null", "middle_process", "samples", "start"]
