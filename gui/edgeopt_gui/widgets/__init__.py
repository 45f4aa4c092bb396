"""Widgets that several pages use; none depends on a page."""
