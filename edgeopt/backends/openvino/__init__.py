"""OpenVINO, with one device in each file."""
