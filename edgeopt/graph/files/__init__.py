"""Model files: detection, validation and writing."""
