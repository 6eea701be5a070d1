"""Functions of leaves: whether a compiled graph holds for their sizes and numbers, and which numbers it gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter


def code(size: Any) -> str:
    """A size or number as Python writes it."""
    return PythonPrinter().doprint(size.node.expr) if isinstance(size, torch.SymInt) else str(size)


def check(
    env: Any, known: dict[Any, Any], sizes: dict[str, list[str]], same: Sequence[int], dense: Sequence[int]
) -> Callable[[Sequence[Any]], bool]:
    """Whether leaves have sizes and numbers that the code holds for, and lie as it takes them to lie.

    known: what symbols had been found to be when sizes were given their names.
    """
    tests = [f"leaves[{place}] == leaves[{first}]" for place, first in enumerate(same) if place != first]
    tests += [f"{place} == {name}" for name, found in sizes.items() for place in found[name.isidentifier() :]]
    tests += [f"leaves[{place}].is_contiguous()" for place in dense]
    for symbol, span in env.var_to_range.items():
        # A size that was more than 1 is taken to stay so, which no guard says.
        if str(symbol) in sizes and span.lower.is_Integer:
            tests.append(f"{symbol} >= {span.lower}")
    for guard in env.guards:
        condition = _replaced(guard.expr, known)
        if all(str(symbol) in sizes for symbol in condition.free_symbols):
            tests.append(f"({PythonPrinter().doprint(condition)})")
    fits: Callable[[Sequence[Any]], bool] = _function(sizes, " and ".join(tests) or "True")
    return fits


def _replaced(condition: Any, known: dict[Any, Any]) -> Any:
    """The same in terms of symbols that sizes are named by."""
    while condition.free_symbols & known.keys():
        condition = condition.xreplace(known)
    return condition


def numbers_of(numbers: dict[int, str], sizes: dict[str, list[str]]) -> Callable[[Sequence[Any]], Sequence[int]]:
    """The whole numbers that the function gives."""
    found: Callable[[Sequence[Any]], Sequence[int]] = _function(sizes, f"[{', '.join(numbers.values())}]")
    return found


def _function(sizes: dict[str, list[str]], result: str) -> Any:
    """A function of leaves, in which sizes and numbers are known by the names that torch gave them."""
    known = [f"    {name} = {found[0]}" for name, found in sizes.items() if name.isidentifier() and name in result]
    # To ask a tensor for its shape takes longer than all that is done with it.
    asked = sorted(set(re.findall(r"shape_(\d+)\[", " ".join([*known, result]))))
    known[:0] = [f"    shape_{place} = leaves[{place}].shape" for place in asked]
    scope: dict[str, Any] = {"math": math}
    exec("\n".join(["def function(leaves):", *known, f"    return {result}"]), scope)
    return scope["function"]
