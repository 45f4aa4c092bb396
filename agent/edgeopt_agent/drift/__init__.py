"""Drift: how far requests and answers of the serving release differ from those at first."""
