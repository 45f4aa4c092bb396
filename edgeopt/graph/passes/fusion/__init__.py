"""Passes that replace several nodes by the one operator that they compute."""
