"""The `Kit` object: a set of plugins, their components (the registry) and their hooks."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import pluggy

from kit import hookspecs
from kit.errors import KitError, PluginError
from kit.plugin.component import Component
from kit.plugin.discovery import (
    LoadedPlugin,
    PluginFilter,
    Registered,
    cause_of,
    filter_plugins,
    from_objects,
    installed_plugins,
    third_party_distributions,
)
from kit.plugin.registry import Registry
from kit.plugin.validation import hook_problems, is_part, level_problems, part_problems

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kit.explain.explanation import Explanation
    from kit.model.builder import Symbols, VocabularySizes
    from kit.model.families import Model
    from kit.model.recipe_check import RecipeSource
    from kit.recipe.sections import Recipe


class Kit:
    """A set of plugins; two kits in one process are independent.

    The constructor imports no plugin. Plugins are imported at the first use of `hooks`, and their components at the
    first use of `registry` or `plugins`.
    """

    def __init__(
        self,
        plugins: Sequence[object] = (),
        disable: Sequence[str] = (),
        only: Sequence[str] = (),
        entry_points: Iterable[EntryPoint] | None = None,
        third_party: bool = True,
    ) -> None:
        """plugins: modules or instances to use besides the installed ones; entry_points: use these instead of those.

        third_party: whether plugins of other distributions than the kit's own are imported.

        disable, only: names of plugins or distributions to leave out, or to keep alone, on top of what the environment
        says in KIT_DISABLE_PLUGINS and KIT_PLUGINS.
        """
        self._objects = tuple(plugins)
        self._entry_points = None if entry_points is None else tuple(entry_points)
        self._disable = _filters(("--no-plugin", disable), ("KIT_DISABLE_PLUGINS", _names_in("KIT_DISABLE_PLUGINS")))
        if not third_party:
            self._disable += _filters(("--no-third-party", third_party_distributions(self._entry_points)))
        self._only = _filters(("only", only), ("KIT_PLUGINS", _names_in("KIT_PLUGINS")))
        self._checked: WeakValueDictionary[int, Recipe] = WeakValueDictionary()
        """Recipes that `recipe` gave out, by identity: their models need no second check."""
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._known: dict[str, LoadedPlugin] = {}

    @property
    def hooks(self) -> pluggy.HookRelay:
        """The hook callers of all plugins: `kit.hooks.kit_callbacks(recipe=recipe)`."""
        _ = self._imported
        return self._manager.hook

    @cached_property
    def found(self) -> list[LoadedPlugin]:
        """Every plugin before its import: found, or disabled (with who did it)."""
        found = [*installed_plugins(self._entry_points), *from_objects(self._objects)]
        return filter_plugins(found, self._disable, self._only)

    def load(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Import one of the plugins that were `found` and register its hooks; the others are left alone."""
        if plugin.key not in self._known:
            self._known[plugin.key] = self._import(plugin)
        return self._known[plugin.key]

    def hook_of(self, plugin: LoadedPlugin, hook: str) -> pluggy.HookCaller:
        """A hook as a plugin that is loaded implements it, without the other plugins."""
        others = [each for name, each in self._manager.list_name_plugin() if name != plugin.key]
        return self._manager.subset_hook_caller(hook, [each for each in others if each is not None])

    @cached_property
    def plugins(self) -> list[LoadedPlugin]:
        """Every plugin with its status: loaded, failed (with the cause) or disabled (with the setting)."""
        return [self._with_parts(plugin) for plugin in self._imported]

    @cached_property
    def registry(self) -> Registry:
        """The installed components."""
        return Registry(self.plugins, kinds=_contract_kinds())

    def recipe(self, source: RecipeSource, overrides: Iterable[str] = ()) -> Recipe:
        """Loads and validates a recipe: its syntax, its components, and a forward pass on the meta device.

        source: a file, YAML text of several lines, plain data, or a `Recipe` object; overrides: `path=value`.
        Raises `RecipeError` with all problems.
        """
        from kit.model.recipe_check import checked_recipe

        recipe = checked_recipe(source, self.registry, overrides)
        self._checked[id(recipe)] = recipe
        return recipe

    def build(
        self, recipe: Recipe, vocabularies: VocabularySizes | None = None, symbols: Symbols | None = None
    ) -> Model:
        """The model of a recipe; vocabularies and symbols come from its tokenizers, where it leaves them open.

        A recipe that did not come from `recipe` of this kit is checked first.
        """
        from kit.model.builder import ModelBuilder

        checked = self._checked.get(id(recipe)) is recipe
        return ModelBuilder(self.registry).model(recipe.model, vocabularies, symbols, checked)

    def explain(self, recipe: Recipe) -> Explanation:
        """The components, shapes, parameters and costs of a recipe, computed on the meta device."""
        from kit.explain.explanation import explain

        return explain(recipe, self.registry)

    @cached_property
    def _imported(self) -> list[LoadedPlugin]:
        return [plugin for plugin in map(self.load, self.found) if plugin.status != "found"]

    def _import(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Import one plugin and register its hooks; an error becomes its status and does not affect the others."""
        if plugin.status == "disabled":
            return plugin
        try:
            loaded = plugin.load()
            if self._manager.is_registered(loaded):
                return plugin  # reached by two ways: the first one stands
            problems = list(level_problems(loaded)) or list(hook_problems(loaded, self._manager))
            level = getattr(loaded, "kit_api", None)
            plugin = replace(plugin, api=level if isinstance(level, int) else None)
            if problems:
                return plugin.failed("; ".join(problems))
            self._manager.register(loaded, plugin.key)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: being installed must not let it end the program
            return plugin.failed(cause_of(error))
        self._attribute(loaded, plugin)
        return replace(plugin, status="loaded")

    def _with_parts(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """List the components of a plugin; a plugin with an invalid one is unregistered as a whole."""
        if plugin.status != "loaded":
            return plugin
        loaded = self._manager.get_plugin(plugin.key)
        parts: list[Registered] = []
        problems: list[str] = []
        try:
            for listing in self._manager.hook.kit_components.get_hookimpls():
                if listing.plugin is loaded:
                    returned = _settled(listing.function())
                    problems += part_problems(returned)
                    parts += _registered(returned, plugin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problems.append(cause_of(error))
        if problems:
            self._manager.unregister(name=plugin.key)
            plugin = plugin.failed("; ".join(problems))
        return replace(plugin, parts=tuple(parts))

    def _attribute(self, loaded: object, plugin: LoadedPlugin) -> None:
        """Wrap the plugin's hooks so that an error inside one names the plugin, which pluggy does not."""
        for caller in self._manager.get_hookcallers(loaded) or ():
            for hook in caller.get_hookimpls():
                if hook.plugin is loaded and caller.name != "kit_components" and not (hook.wrapper or hook.hookwrapper):
                    hook.function = _named(hook.function, plugin, caller.name)  # type: ignore[misc]


def _named(function: Callable[..., Any], plugin: LoadedPlugin, hook: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KitError:
            raise
        except Exception as error:
            raise PluginError(f"{plugin.title} failed in its hook {hook}: {cause_of(error)}") from error

    return call


def _settled(returned: object) -> object:
    """A generator as a list, so that it can be iterated twice."""
    return list(returned) if inspect.isgenerator(returned) else returned


def _registered(returned: Any, plugin: LoadedPlugin) -> list[Registered]:
    sound = [item for item in returned if is_part(item)] if isinstance(returned, Iterable) else []
    return [
        Registered(part, part.kind, part.name(), plugin.distribution, plugin.version, plugin.name)
        for part in dict.fromkeys(sound)
    ]


def _contract_kinds() -> list[str]:
    """The kinds that the contracts declare, whether or not a component of each is installed."""
    from kit import contracts

    kinds = set()
    for module in pkgutil.iter_modules(contracts.__path__, f"{contracts.__name__}."):
        for item in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(item) and issubclass(item, Component) and "kind" in vars(item):
                kinds.add(item.kind)
    return sorted(kinds)


def _names_in(variable: str) -> list[str]:
    return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]


def _filters(*choices: tuple[str, Sequence[str]]) -> list[PluginFilter]:
    return [PluginFilter(source, tuple(names)) for source, names in choices if names]
