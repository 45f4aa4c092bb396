"""The graph as a file: an HTML page, an SVG, a PNG."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QImage, QPainter, QPalette

from edgeopt.diagram.beside import Beside
from edgeopt.diagram.colours import Colouring
from edgeopt.diagram.page import PageGraph, page, pair_graphs, svg
from edgeopt.diagram.scene import Diagram, Layout, Scene
from edgeopt_gui.pages.graph.canvas import Canvas
from edgeopt_gui.pages.graph.content import Drawn

_MAX_PIXELS = 12_000
"""Longest side of a PNG in pixels."""
_MARGIN = 80.0


def text_of(path: Path, name: str, diagram: Diagram, scene: Scene, colourings: Sequence[Colouring]) -> str:
    """Returns an SVG of the scene if the suffix is .svg, else an HTML page with all groups open.

    Both show the first of the colourings.
    """
    if path.suffix.lower() == ".svg":
        return svg(diagram, scene, colourings[0], name)
    whole = Layout(diagram).scene(frozenset(diagram.groups()))
    return page(name, [PageGraph(name, diagram, whole, tuple(colourings))])


def text_of_pair(pair: Beside, drawn: Sequence[Drawn]) -> str:
    """Returns an HTML page with both models."""
    names = [each.name for each in drawn]
    return page(" and ".join(names), pair_graphs(pair, names, [each.colourings() for each in drawn]))


def write_png(path: Path, canvas: Canvas, scene: Scene) -> None:
    width, height = scene.width + _MARGIN, scene.height + _MARGIN
    scale = min(2.0, _MAX_PIXELS / max(width, height))
    image = QImage(QSize(round(width * scale), round(height * scale)), QImage.Format.Format_RGB32)
    image.fill(canvas.palette().color(QPalette.ColorRole.Base))
    with QPainter(image) as painter:
        canvas.picture(painter, QRectF(image.rect()))
    if not image.save(str(path)):
        raise OSError(f"'{path.parent}' cannot be written to")
