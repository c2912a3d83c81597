"""Boxes, arrows and text as an SVG file: what the diagrams of the documentation are drawn with."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

Point = tuple[float, float]

INK, QUIET, ACCENT, FILL, PAPER = "#1f2d33", "#5c6b73", "#00796b", "#e0f2f1", "#ffffff"
WARM, WARM_FILL = "#bf360c", "#fbe9e7"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
LINE_HEIGHT = 17.0


@dataclass
class Drawing:
    """A picture that grows by what is drawn on it. The background is white, so that it can be read in any colours."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, at: Point, size: Point, *lines: str, fill: str = FILL, stroke: str = ACCENT) -> None:
        """A box with its text in the middle, the first line in bold."""
        (x, y), (width, height) = at, size
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
        )
        top = y + height / 2 - LINE_HEIGHT * (len(lines) - 1) / 2 + 5
        for number, line in enumerate(lines):
            self.text((x + width / 2, top + LINE_HEIGHT * number), line, bold=number == 0)

    def text(
        self, at: Point, text: str, *, anchor: str = "middle", colour: str = INK, bold: bool = False, size: int = 13
    ) -> None:
        """One line of text on white, so that what is below it does not disturb."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )

    def label(self, at: Point, text: str, *, anchor: str = "middle", colour: str = INK) -> None:
        """Small text beside an arrow, with a white edge that keeps lines off it."""
        self.parts.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}" font-size="12" fill="{colour}" '
            f'stroke="{PAPER}" stroke-width="4" paint-order="stroke">{escape(text)}</text>'
        )

    def line(self, points: Iterable[Point], *, colour: str = QUIET, dashed: bool = False) -> None:
        """A thin line through the points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"{dashes}/>')

    def arrow(
        self,
        start: Point,
        end: Point,
        *,
        bend: float = 0,
        colour: str = ACCENT,
        dashed: bool = False,
        both: bool = False,
    ) -> None:
        """An arrow, bent to its left by so many pixels, with a head at its end or at both."""
        (ax, ay), (bx, by) = start, end
        length = max(((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5, 1)
        middle = ((ax + bx) / 2 + bend * (by - ay) / length * 2, (ay + by) / 2 - bend * (bx - ax) / length * 2)
        head = "warm" if colour == WARM else "quiet" if colour == QUIET else "head"
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        first = f' marker-start="url(#{head})"' if both else ""
        self.parts.append(
            f'<path d="M{ax:g},{ay:g} Q{middle[0]:g},{middle[1]:g} {bx:g},{by:g}" fill="none" stroke="{colour}" '
            f'stroke-width="1.6"{dashes}{first} marker-end="url(#{head})"/>'
        )

    def svg(self) -> str:
        """The file."""
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{colour}"/></marker>'
            for name, colour in (("head", ACCENT), ("warm", WARM), ("quiet", QUIET))
        )
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{FONT}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<defs>{heads}</defs>\n"
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n{body}\n</svg>\n'
        )
