"""A property that is computed once and kept; without a lock, which compilers cannot see through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Keeps the value in the object under its own name, so that it can also be set."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> lazy[T]: ...

    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...

    def __get__(self, owner: object | None, kind: type | None = None) -> lazy[T] | T:
        if owner is None:
            return self
        value = self.compute(owner)
        owner.__dict__[self.name] = value
        return value

    def __set__(self, owner: object, value: T) -> None: ...


del lazy.__set__  # only type checkers need it: with it, python would ask here every time
