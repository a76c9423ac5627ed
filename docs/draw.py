"""Makes docs/architecture.svg from docs/architecture.txt: `python docs/draw.py`.

A line of the source is one of

    size WIDTH HEIGHT
    box NAME KIND X Y WIDTH HEIGHT : TITLE | LINE | LINE
    arrow FROM SIDE TO SIDE : LABEL         SIDE is left, right, top or bottom, "+30" moves along it
    both FROM SIDE TO SIDE : LABEL          the same with two heads

Empty lines and lines that begin with # mean nothing. Lengths are pixels. Raises BadDrawing where
two boxes overlap without one holding the other, or where a text is wider than its box.
"""

import sys
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE / "architecture.txt"
DRAWING: Final = HERE / "architecture.svg"

FILLS: Final = {
    "outside": ("#f4f4f4", "#8a8a8a"),
    "process": ("#eef4fb", "#4a78a8"),
    "room": ("#ffffff", "#4a78a8"),
    "memory": ("#fdf6e3", "#b58900"),
    "disk": ("#eef7ee", "#4f8a4f"),
}
TITLE_SIZE: Final = 14
TEXT_SIZE: Final = 12
LABEL_SIZE: Final = 11
LINE_HEIGHT: Final = 16
PADDING: Final = 8
# How wide the letters of a wide sans-serif font are on average, as a part of its size.
TITLE_WIDTH: Final = 0.68
TEXT_WIDTH: Final = 0.56
INK: Final = "#222222"


class BadDrawing(Exception):
    """The source does not make a readable drawing."""


class Box(NamedTuple):
    """A rectangle with a title and lines of text."""

    name: str
    kind: str
    x: int
    y: int
    width: int
    height: int
    texts: tuple[str, ...]

    def holds(self, other: "Box") -> bool:
        """Whether all of the other box lies inside this one."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )

    def overlaps(self, other: "Box") -> bool:
        """Whether the two boxes have a part of the area in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def port(self, side: str) -> tuple[int, int]:
        """The point of an edge where an arrow ends."""
        edge, _, moved = side.partition("+")
        along = int(moved) if moved else None
        middle_x = self.x + (self.width // 2 if along is None else along)
        middle_y = self.y + (self.height // 2 if along is None else along)
        points = {
            "left": (self.x, middle_y),
            "right": (self.x + self.width, middle_y),
            "top": (middle_x, self.y),
            "bottom": (middle_x, self.y + self.height),
        }
        if edge not in points:
            raise BadDrawing(f"{self.name} has no side {side}")
        return points[edge]


class Arrow(NamedTuple):
    """A straight line between the edges of two boxes."""

    start: tuple[int, int]
    end: tuple[int, int]
    label: str
    has_two_heads: bool


class Drawing(NamedTuple):
    """Everything that a source says."""

    width: int
    height: int
    boxes: dict[str, Box]
    arrows: list[Arrow]


def read(source: str) -> Drawing:
    """The drawing that a source describes."""
    width = height = 0
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for line in source.splitlines():
        words, _, text = (part.strip() for part in line.partition(":"))
        match words.split():
            case [] | ["#", *_]:
                continue
            case ["size", across, down]:
                width, height = int(across), int(down)
            case ["box", name, kind, x, y, across, down] if kind in FILLS:
                texts = tuple(part.strip() for part in text.split("|"))
                boxes[name] = Box(name, kind, int(x), int(y), int(across), int(down), texts)
            case ["arrow" | "both" as form, start, start_side, end, end_side]:
                ends = boxes[start].port(start_side), boxes[end].port(end_side)
                arrows.append(Arrow(*ends, text, form == "both"))
            case _:
                raise BadDrawing(f"not understood: {line}")
    return Drawing(width, height, boxes, arrows)


def check(drawing: Drawing) -> None:
    """Raise BadDrawing where something would not be readable."""
    whole = Box("drawing", "outside", 0, 0, drawing.width, drawing.height, ())
    for box in drawing.boxes.values():
        if not whole.holds(box):
            raise BadDrawing(f"{box.name} leaves the drawing")
        for number, text in enumerate(box.texts):
            letter = TEXT_SIZE * TEXT_WIDTH if number else TITLE_SIZE * TITLE_WIDTH
            if len(text) * letter > box.width - 2 * PADDING:
                raise BadDrawing(f"{box.name} is too narrow for: {text}")
        if len(box.texts) * LINE_HEIGHT + 2 * PADDING > box.height + PADDING:
            raise BadDrawing(f"{box.name} is too low for {len(box.texts)} lines")
    for one, other in combinations(drawing.boxes.values(), 2):
        if one.overlaps(other) and not (one.holds(other) or other.holds(one)):
            raise BadDrawing(f"{one.name} and {other.name} overlap")


def render(source: str) -> str:
    """The SVG of a source; the same source always gives the same bytes."""
    drawing = read(source)
    check(drawing)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width}"'
        f' height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
        ' font-family="Helvetica, Arial, sans-serif">',
        "<defs>",
        '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4"'
        f' orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker>',
        "</defs>",
        f'<rect width="{drawing.width}" height="{drawing.height}" fill="#ffffff"/>',
    ]
    for box in drawing.boxes.values():
        lines += _box_lines(box)
    for arrow in drawing.arrows:
        lines += _arrow_lines(arrow)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box_lines(box: Box) -> list[str]:
    fill, edge = FILLS[box.kind]
    lines = [
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="5"'
        f' fill="{fill}" stroke="{edge}"/>'
    ]
    for number, text in enumerate(box.texts):
        baseline = box.y + PADDING + TITLE_SIZE - 2 + number * LINE_HEIGHT
        weight = "normal" if number else "bold"
        size = TEXT_SIZE if number else TITLE_SIZE
        lines.append(
            f'<text x="{box.x + PADDING}" y="{baseline}" font-size="{size}"'
            f' font-weight="{weight}" fill="{INK}">{escape(text)}</text>'
        )
    return lines


def _arrow_lines(arrow: Arrow) -> list[str]:
    (x1, y1), (x2, y2) = arrow.start, arrow.end
    first_head = ' marker-start="url(#head)"' if arrow.has_two_heads else ""
    lines = [
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.3"'
        f' marker-end="url(#head)"{first_head}/>'
    ]
    if arrow.label:
        x, y = (x1 + x2) // 2, (y1 + y2) // 2
        # Beside a steep line, above a flat one.
        is_flat = abs(x2 - x1) > abs(y2 - y1)
        place = (
            f'x="{x}" y="{y - 6}" text-anchor="middle"' if is_flat else f'x="{x + 7}" y="{y + 4}"'
        )
        lines.append(
            f'<text {place} font-size="{LABEL_SIZE}" fill="{INK}">{escape(arrow.label)}</text>'
        )
    return lines


def main() -> None:
    """Write the drawing beside its source."""
    try:
        DRAWING.write_text(render(SOURCE.read_text()))
    except BadDrawing as error:
        sys.exit(f"{SOURCE}: {error}")


if __name__ == "__main__":
    main()
