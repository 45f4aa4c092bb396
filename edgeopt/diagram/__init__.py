"""Diagrams of models: nodes folded into groups, laid out, and written as SVG or as one HTML file."""
