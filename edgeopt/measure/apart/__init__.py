"""A backend whose sessions live in a process of their own, so that a runtime that crashes takes nothing along."""

from edgeopt.measure.isolated_backend import Apart

__all__ = ["Apart"]
