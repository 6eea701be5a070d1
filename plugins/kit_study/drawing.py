"""Line charts as SVG without a library: colours from the page's style, values as tooltips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 28, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#b2a300")
"""A colour-blind-safe palette (Okabe and Ito), combined with dash patterns."""
DASHES = ("", "6 3", "2 3", "8 3 2 3", "4 4", "1 2", "10 4", "3 1")
MAX_LABEL_LENGTH = 18
"""The maximum length of a legend label."""
MAX_MARKERS = 40
"""The most points of a line for which markers are drawn."""


@dataclass(frozen=True)
class Line:
    """One curve of points (x, y, half of the confidence interval or None)."""

    label: str
    points: Sequence[tuple[float, float, float | None]]


@dataclass(frozen=True)
class Chart:
    """Curves on two axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_y: bool = False
    """Whether the y axis is logarithmic."""
    log_x: bool = False

    def svg(self) -> str:
        """Renders the chart as SVG; empty if there is nothing to draw."""
        lines = [(line, self._finite_points(line)) for line in self.lines]
        points = [point for _, drawable in lines for point in drawable]
        if not points:
            return ""
        xs = [self._x(point[0]) for point in points]
        ys = [self._y(value) for point in points for value in self._bounds(point)]
        scale = _Scale(min(xs), max(xs), min(ys), max(ys))
        body = [self._axes(scale)]
        for number, (line, drawable) in enumerate(lines):
            body.append(self._curve(line, drawable, scale, number))
        style = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg"'
        name = f'<text class="title" x="{LEFT}" y="16">{escape(self.title)}</text>'
        return f'<svg {style} aria-label="{escape(self.title)}">{name}{"".join(body)}</svg>'

    def _finite_points(self, line: Line) -> list[tuple[float, float, float | None]]:
        points = [point for point in line.points if all(math.isfinite(value) for value in point[:2])]
        points = [point for point in points if (not self.log_y or point[1] > 0) and (not self.log_x or point[0] > 0)]
        return sorted(points, key=lambda point: point[0])

    def _bounds(self, point: tuple[float, float, float | None]) -> list[float]:
        half = point[2] or 0.0
        bounds = [point[1] - half, point[1] + half]
        return [value if not self.log_y or value > 0 else point[1] for value in bounds]

    def _x(self, value: float) -> float:
        return math.log10(value) if self.log_x else value

    def _y(self, value: float) -> float:
        return math.log10(value) if self.log_y else value

    def _axes(self, scale: _Scale) -> str:
        parts = []
        for mark in ticks(scale.bottom, scale.top, whole=self.log_y):
            y = scale.y(mark)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(_text(LEFT - 6, y + 4, _tick_label(mark, self.log_y), "end"))
        for mark in ticks(scale.left, scale.right, whole=self.log_x):
            parts.append(_text(scale.x(mark), HEIGHT - BOTTOM + 16, _tick_label(mark, self.log_x), "middle"))
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.x_label, "middle"))
        parts.append(_text(14, HEIGHT / 2, self.y_label, "middle", f' transform="rotate(-90 14 {HEIGHT / 2})"'))
        return "".join(parts)

    def _curve(self, line: Line, points: list[tuple[float, float, float | None]], scale: _Scale, number: int) -> str:
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        path = " ".join(f"{scale.x(self._x(x)):.1f},{scale.y(self._y(y)):.1f}" for x, y, _ in points)
        parts = [f'<polyline points="{path}" fill="none" {stroke}/>']
        for point in points if len(points) <= MAX_MARKERS else ():
            x, y, half = point
            x_px, y_px = scale.x(self._x(x)), scale.y(self._y(y))
            if half:
                low, high = (scale.y(self._y(value)) for value in self._bounds(point))
                parts.append(f'<path d="M{x_px:.1f} {low:.1f}V{high:.1f}" stroke="{colour}"/>')
            shown = f"{escape(line.label)}: {y:.4g}" + (f" ± {half:.2g}" if half else "") + f" at {x:g}"
            circle = f'cx="{x_px:.1f}" cy="{y_px:.1f}" r="3" fill="{colour}"'
            parts.append(f"<circle {circle}><title>{shown}</title></circle>")
        legend_x, legend_y = WIDTH - RIGHT + 12, TOP + 14 * number + 8
        parts.append(f'<path d="M{legend_x} {legend_y - 4}h20" {stroke}/>')
        label = line.label if len(line.label) <= MAX_LABEL_LENGTH else line.label[: MAX_LABEL_LENGTH - 1] + "…"
        parts.append(_text(legend_x + 26, legend_y, label, "start"))
        return "".join(parts)


class _Scale:
    """The mapping from data to SVG coordinates."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self.left, self.right = (left, right) if right > left else (left - 0.5, right + 0.5)
        margin = 0.05 * (top - bottom) or max(abs(top) * 0.05, 0.5)
        self.bottom, self.top = bottom - margin, top + margin

    def x(self, value: float) -> float:
        return LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.bottom) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)


def ticks(low: float, high: float, *, whole: bool = False, most: int = 6) -> list[float]:
    """Returns round numbers between two values; whole ones for exponents of ten."""
    rough = (high - low) / most
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    step = max(1.0, math.ceil(step)) if whole else step
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text class="mark" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _tick_label(mark: float, log_y: bool) -> str:
    if log_y:
        return f"{10**mark:g}" if -4 <= mark <= 5 else f"1e{mark:.0f}"
    return f"{mark:.10g}" if abs(mark) < 1e5 else f"{mark:.0e}"
