"""Makes the recipe type of one installation: every slot becomes a union of the parts that are installed for it.

Sections and options are re-declared as subclasses with the same fields, in which a slot is a `BoundSlot`, a nested
model a `BoundModel` (both resolved only when pydantic builds the validator, so that parts may hold parts of their own
kind), and numbers and texts are strict, because YAML already says which is which.
"""

from __future__ import annotations

import copy
import types
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, Tag, WithJsonSchema
from pydantic.fields import FieldInfo

from kit.component import Options, Slot
from kit.errors import KitError
from kit.recipe.bound import MEMBER, BoundModel, BoundSlot
from kit.registry import Registry, split_version

Model = TypeVar("Model", bound=BaseModel)

_STRICT = (int, float, str, bool)
_KEPT = "_recipe_binder"


def bind(section_type: type[Model], registry: Registry) -> type[Model]:
    """A subclass of a section whose slots accept what this registry holds; the same one each time."""
    return binder_of(registry).bound(section_type)


def binder_of(registry: Registry) -> Binder:
    """The one binder of a registry."""
    # kept on the registry itself: a table here would keep every registry alive, since binders point back to theirs
    if _KEPT not in vars(registry):
        setattr(registry, _KEPT, Binder(registry))
    binder: Binder = vars(registry)[_KEPT]
    return binder


class Binder:
    """Binds types to one registry and remembers them."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._bound: dict[type[BaseModel], type[BaseModel]] = {}

    def bound(self, model: type[Model]) -> type[Model]:
        """The bound subclass of a section or options type."""
        if model not in self._bound:
            made = self._make(model)
            self._bound[model] = made
            self._bound[made] = made
        return self._bound[model]  # type: ignore[return-value]

    def _make(self, model: type[BaseModel]) -> type[BaseModel]:
        model.model_rebuild()
        namespace: dict[str, Any] = {
            "__module__": model.__module__,
            "__qualname__": model.__qualname__,
            "__doc__": model.__doc__,
            "__annotations__": {},
            # the docstrings of fields were read when the plugin's own class was made
            "model_config": ConfigDict(defer_build=True, use_attribute_docstrings=False),
        }
        for name, field in model.model_fields.items():
            namespace["__annotations__"][name], namespace[name] = self._field(model, name, field)
        return types.new_class(model.__name__, (model,), exec_body=lambda body: body.update(namespace))

    def _field(self, model: type[BaseModel], name: str, field: FieldInfo) -> tuple[Any, FieldInfo]:
        info = copy.copy(field)
        annotation = field.annotation
        if name == "use" and issubclass(model, Options) and get_origin(annotation) is Literal:
            # a scoped name has chosen the part; what the part itself is told is its plain name
            spelled = WithJsonSchema({"type": "string", "enum": self._names(model, get_args(annotation)[0])})
            return Annotated[annotation, BeforeValidator(_unscoped), spelled], info
        slot = next((item for item in field.metadata if isinstance(item, Slot)), None)
        info.metadata = [item for item in field.metadata if not isinstance(item, Slot)]
        changed = self._slot(slot) if slot is not None else self.rewritten(annotation)
        if slot is not None or _holds_slot(annotation):
            info.validate_default = True
        info.annotation = changed
        return changed, info

    def _names(self, options_type: type[Options], plain: str) -> list[str]:
        """Every name that selects the part with these options; its own where it is no part."""
        try:
            part = self.registry.of_options(options_type)
        except KitError:
            return [plain]
        names = [part.name, part.scoped] if part.name in self.registry.names(part.kind) else [part.scoped]
        version = part.component.version
        return names + [f"{name}@{version}" for name in names if version > 1]

    def rewritten(self, annotation: Any) -> Any:
        """An annotation with slots and models bound, union members labelled, and plain values strict."""
        if annotation in _STRICT:
            return Annotated[annotation, Strict()]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and get_origin(annotation) is None:
            return Annotated[annotation, BoundModel(annotation, self)]
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is None or origin is Literal:
            return annotation
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Union or origin is types.UnionType:
            return self._union(arguments)
        if isinstance(origin, type):
            return types.GenericAlias(origin, tuple(self._argument(argument) for argument in arguments))
        return annotation

    def _argument(self, argument: Any) -> Any:
        return argument if argument is Ellipsis else self.rewritten(argument)

    def _annotated(self, inner: Any, metadata: tuple[Any, ...]) -> Any:
        slot = next((item for item in metadata if isinstance(item, Slot)), None)
        rest = tuple(item for item in metadata if not isinstance(item, Slot))
        base = self._slot(slot) if slot is not None else self.rewritten(inner)
        return Annotated[(base, *rest)] if rest else base

    def _union(self, members: tuple[Any, ...]) -> Any:
        real = [member for member in members if member is not type(None)]
        changed = [self.rewritten(member) for member in real]
        if len(real) > 1:
            changed = [Annotated[member, Tag(f"{MEMBER}{index}")] for index, member in enumerate(changed)]
        joined = reduce(or_, changed) if len(changed) > 1 else changed[0]
        return joined | None if len(real) < len(members) else joined

    def _slot(self, slot: Slot) -> Any:
        return Annotated[Options, BoundSlot(slot.kind, self)]


def _unscoped(name: Any) -> Any:
    return split_version(name.rpartition("/")[2])[0] if isinstance(name, str) else name


def _holds_slot(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated and any(isinstance(item, Slot) for item in get_args(annotation)[1:]):
        return True
    return any(_holds_slot(argument) for argument in get_args(annotation))
