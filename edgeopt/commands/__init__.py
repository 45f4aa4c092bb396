"""Implementations of the commands, one folder each, above the engines and below the command line."""
