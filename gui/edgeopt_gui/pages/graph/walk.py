"""Navigation between the boxes of a scene: along connections, and to neighbours."""

from edgeopt.diagram.outline import Leaf, OutlineGroup, Path
from edgeopt.diagram.scene import Box, Diagram, Scene


class Walk:
    """The ways from box to box in one scene; a frame of an open group is no stop."""

    def __init__(self, diagram: Diagram, scene: Scene) -> None:
        self._diagram = diagram
        self.boxes = {box.path: box for box in scene.boxes if not box.is_open}
        self._before: dict[Path, list[Path]] = {path: [] for path in self.boxes}
        self._after: dict[Path, list[Path]] = {path: [] for path in self.boxes}
        for line in scene.lines:
            if line.target in self.boxes:
                maker = self.shown(diagram.wiring.paths[diagram.values[line.value].producer])
                if maker is not None and line.target is not None and maker not in self._before[line.target]:
                    self._before[line.target].append(maker)
                    self._after[maker].append(line.target)

    def shown(self, path: Path) -> Path | None:
        """Returns the box of an item: its own, or that of the folded group around it."""
        return next((path[:end] for end in range(1, len(path) + 1) if path[:end] in self.boxes), None)

    def producers(self, path: Path) -> list[Path]:
        return self._before.get(path, [])

    def consumers(self, path: Path) -> list[Path]:
        return self._after.get(path, [])

    def up(self, path: Path) -> Path | None:
        return self._nearest(path, self.producers(path))

    def down(self, path: Path) -> Path | None:
        return self._nearest(path, self.consumers(path))

    def beside(self, path: Path, to_the_right: bool) -> Path | None:
        """Returns the next box at the same height; None if there is none."""
        own = self.boxes[path]
        others = [
            (abs(box.left - own.left), box.path)
            for box in self.boxes.values()
            if (box.left > own.left) == to_the_right
            and box.path != path
            and box.top < own.top + own.height
            and box.top + box.height > own.top
        ]
        return min(others)[1] if others else None

    def _nearest(self, path: Path, others: list[Path]) -> Path | None:
        middle = _middle(self.boxes[path])
        return min(others, key=lambda other: abs(_middle(self.boxes[other]) - middle), default=None)

    def first(self) -> Path | None:
        return min(self.boxes, key=lambda path: (self.boxes[path].top, self.boxes[path].left), default=None)

    def position(self, path: Path) -> int | None:
        """Returns the position of the node of a box; None for a folded group, an input or an output."""
        item = self._diagram.item(path)
        if isinstance(item, Leaf):
            return item.position
        return item.holder if isinstance(item, OutlineGroup) else None


def _middle(box: Box) -> float:
    return box.left + box.width / 2
