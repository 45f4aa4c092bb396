"""The page Device: the record of the device, the chosen target, and the current load."""
