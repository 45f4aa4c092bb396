"""Audio files among the data of a search."""

import os
from pathlib import Path

ENDING = ".wav"


def audio_files(data: Path) -> list[Path]:
    """Returns a WAV file, or the WAV files in a folder; none for other data, or a folder that cannot be read."""
    if data.is_dir() and not os.access(data, os.R_OK):
        return []
    found = sorted(data.iterdir()) if data.is_dir() else [data]
    return [file for file in found if file.suffix.lower() == ENDING]
