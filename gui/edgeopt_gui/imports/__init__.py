"""Imports of models of other frameworks: what is asked, and the command line that does it."""
