"""How far apart queries and keys can stand, known from shapes where possible, and looking scores up by distance.

Shapes: B rows, H heads, Q queries, K keys, S distances.
"""

from __future__ import annotations

from torch import Tensor

from kit import Scope


def distances(scope: Scope) -> Tensor:
    """[B or 1, Q, K]: how far each key stands behind each query; negative for keys that come later."""
    return scope.queries.at[:, :, None] - scope.keys.at[:, None, :]


def reach(scope: Scope) -> tuple[int, int]:
    """The lowest and the highest distance that a query can see in this scope."""
    if "position" in scope.keys.facts:
        # A batch that numbers its own tokens may number them in any way, so only the numbers themselves can tell.
        found = distances(scope)
        return int(found.min()), int(found.max())
    blind_to_future = scope.mask is not None and scope.mask.hides_future
    return (0 if blind_to_future else 1 - scope.keys.length), scope.keys.length - 1


def look_up(table_BHQS: Tensor, index_BQK: Tensor) -> Tensor:
    """[B, H, Q, K]: of the scores that each query has for each distance, that of each key."""
    rows, heads = table_BHQS.shape[:2]
    return table_BHQS.gather(-1, index_BQK[:, None].expand(rows, heads, -1, -1))
