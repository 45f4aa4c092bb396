"""OpenVINO, one device a file."""
