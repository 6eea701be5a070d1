"""Line charts as SVG, written out: no library, colours from the page's style, values that show when pointed at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 28, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#b2a300")
"""Told apart by colour-blind people too (Okabe and Ito), and again by the shape of their points."""
DASHES = ("", "6 3", "2 3", "8 3 2 3", "4 4", "1 2", "10 4", "3 1")
LEGEND = 18
"""Letters of a label that fit beside a chart."""
MARKED = 40
"""Curves of more points than this show none of them, only the line."""


@dataclass(frozen=True)
class Line:
    """One curve, with half of an interval at each point where that is known."""

    label: str
    points: Sequence[tuple[float, float, float | None]]


@dataclass(frozen=True)
class Chart:
    """Curves on two axes."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    log: bool = False
    """Whether the upward axis is logarithmic."""
    log_across: bool = False

    def svg(self) -> str:
        """The drawing; empty where there is nothing to draw."""
        lines = [(line, self._drawable(line)) for line in self.lines]
        points = [point for _, drawable in lines for point in drawable]
        if not points:
            return ""
        xs = [self._x(point[0]) for point in points]
        ys = [self._y(value) for point in points for value in self._ends(point)]
        frame = _Frame(min(xs), max(xs), min(ys), max(ys))
        body = [self._axes(frame)]
        for number, (line, drawable) in enumerate(lines):
            body.append(self._curve(line, drawable, frame, number))
        style = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg"'
        name = f'<text class="title" x="{LEFT}" y="16">{escape(self.title)}</text>'
        return f'<svg {style} aria-label="{escape(self.title)}">{name}{"".join(body)}</svg>'

    def _drawable(self, line: Line) -> list[tuple[float, float, float | None]]:
        points = [point for point in line.points if all(math.isfinite(value) for value in point[:2])]
        points = [point for point in points if (not self.log or point[1] > 0) and (not self.log_across or point[0] > 0)]
        return sorted(points, key=lambda point: point[0])

    def _ends(self, point: tuple[float, float, float | None]) -> list[float]:
        half = point[2] or 0.0
        ends = [point[1] - half, point[1] + half]
        return [value if not self.log or value > 0 else point[1] for value in ends]

    def _x(self, value: float) -> float:
        return math.log10(value) if self.log_across else value

    def _y(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def _axes(self, frame: _Frame) -> str:
        parts = []
        for mark in ticks(frame.bottom, frame.top, whole=self.log):
            y = frame.y(mark)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(_text(LEFT - 6, y + 4, _shown(mark, self.log), "end"))
        for mark in ticks(frame.left, frame.right, whole=self.log_across):
            parts.append(_text(frame.x(mark), HEIGHT - BOTTOM + 16, _shown(mark, self.log_across), "middle"))
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.across, "middle"))
        parts.append(_text(14, HEIGHT / 2, self.up, "middle", f' transform="rotate(-90 14 {HEIGHT / 2})"'))
        return "".join(parts)

    def _curve(self, line: Line, points: list[tuple[float, float, float | None]], frame: _Frame, number: int) -> str:
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        path = " ".join(f"{frame.x(self._x(x)):.1f},{frame.y(self._y(y)):.1f}" for x, y, _ in points)
        parts = [f'<polyline points="{path}" fill="none" {stroke}/>']
        for point in points if len(points) <= MARKED else ():
            x, y, half = point
            across, up = frame.x(self._x(x)), frame.y(self._y(y))
            if half:
                low, high = (frame.y(self._y(value)) for value in self._ends(point))
                parts.append(f'<path d="M{across:.1f} {low:.1f}V{high:.1f}" stroke="{colour}"/>')
            shown = f"{escape(line.label)}: {y:.4g}" + (f" ± {half:.2g}" if half else "") + f" at {x:g}"
            place = f'cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}"'
            parts.append(f"<circle {place}><title>{shown}</title></circle>")
        place_x, place_y = WIDTH - RIGHT + 12, TOP + 14 * number + 8
        parts.append(f'<path d="M{place_x} {place_y - 4}h20" {stroke}/>')
        label = line.label if len(line.label) <= LEGEND else line.label[: LEGEND - 1] + "…"
        parts.append(_text(place_x + 26, place_y, label, "start"))
        return "".join(parts)


class _Frame:
    """From values to places on the drawing."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self.left, self.right = (left, right) if right > left else (left - 0.5, right + 0.5)
        room = 0.05 * (top - bottom) or max(abs(top) * 0.05, 0.5)
        self.bottom, self.top = bottom - room, top + room

    def x(self, value: float) -> float:
        return LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.bottom) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)


def ticks(low: float, high: float, *, whole: bool = False, most: int = 6) -> list[float]:
    """Round numbers between two values; whole ones where they are powers of ten."""
    rough = (high - low) / most
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    step = max(1.0, math.ceil(step)) if whole else step
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text class="mark" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _shown(mark: float, log: bool) -> str:
    if log:
        return f"{10**mark:g}" if -4 <= mark <= 5 else f"1e{mark:.0f}"
    return f"{mark:.10g}" if abs(mark) < 1e5 else f"{mark:.0e}"
