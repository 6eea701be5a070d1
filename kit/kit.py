"""The kit: one set of plugins, with the parts they bring and the hooks they listen to."""

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

import pluggy

from kit import hookspecs, plugins, vetting
from kit.component import Component
from kit.errors import KitError, PluginError
from kit.plugins import Choice, LoadedPlugin, Registered, strangers
from kit.registry import Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kit.checking import RecipeSource
    from kit.explaining.explanation import Explanation
    from kit.model.assembly import Named, Symbols
    from kit.model.families import Model
    from kit.recipe.sections import Recipe


class Kit:
    """Owns its plugins: two kits in one process know nothing of each other.

    Making one imports nothing. The plugins are imported when `hooks` is first used, and their parts when `registry`
    or `plugins` is.
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
        self._given = tuple(plugins)
        self._entry_points = None if entry_points is None else tuple(entry_points)
        self._disable = _choices(("--no-plugin", disable), ("KIT_DISABLE_PLUGINS", _environment("KIT_DISABLE_PLUGINS")))
        if not third_party:
            self._disable += _choices(("--no-third-party", strangers(self._entry_points)))
        self._only = _choices(("only", only), ("KIT_PLUGINS", _environment("KIT_PLUGINS")))
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)

    @property
    def hooks(self) -> pluggy.HookRelay:
        """Calls every plugin that listens: `kit.hooks.kit_model_built(model=model, recipe=recipe)`."""
        _ = self._imported
        return self._manager.hook

    @cached_property
    def plugins(self) -> list[LoadedPlugin]:
        """Every plugin that was found: loaded, failed (with the cause) or disabled (with who did it)."""
        return [self._with_parts(plugin) for plugin in self._imported]

    @cached_property
    def registry(self) -> Registry:
        """The parts that are installed."""
        return Registry(self.plugins, kinds=_contract_kinds())

    def recipe(self, source: RecipeSource, overrides: Iterable[str] = ()) -> Recipe:
        """A recipe that is right in every way that can be told without training: its words, its parts, its shapes.

        source: a file, a text of several lines, plain data, or a `Recipe` written in Python; overrides: `path=value`.
        Raises `RecipeError` with everything that is wrong.
        """
        from kit.checking import checked_recipe

        recipe = checked_recipe(source, self.registry, overrides)
        self.hooks.kit_recipe_loaded(recipe=recipe)
        return recipe

    def build(self, recipe: Recipe, vocabularies: Named | None = None, symbols: Symbols | None = None) -> Model:
        """The model of a recipe; vocabularies and symbols come from its tokenizers, where it leaves them open."""
        from kit.model.assembly import Assembly

        model = Assembly(self.registry).model(recipe.model, vocabularies, symbols)
        self.hooks.kit_model_built(model=model, recipe=recipe)
        return model

    def explain(self, recipe: Recipe) -> Explanation:
        """What a recipe comes to: its parts, shapes, parameters and costs, without building it for real."""
        from kit.explaining.explanation import explain

        return explain(recipe, self.registry)

    @cached_property
    def _imported(self) -> list[LoadedPlugin]:
        found = [*plugins.installed(self._entry_points), *plugins.given(self._given)]
        imported = [self._import(plugin) for plugin in plugins.choose(found, self._disable, self._only)]
        return [plugin for plugin in imported if plugin.status != "found"]

    def _import(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Import one plugin and register its hooks; whatever goes wrong is written down, and the next one follows."""
        if plugin.status == "disabled":
            return plugin
        try:
            loaded = plugin.load()
            if self._manager.is_registered(loaded):
                return plugin  # reached by two ways: the first one stands
            problems = list(vetting.level_problems(loaded)) or list(vetting.hook_problems(loaded, self._manager))
            level = getattr(loaded, "kit_api", None)
            plugin = replace(plugin, api=level if isinstance(level, int) else None)
            if problems:
                return plugin.failed("; ".join(problems))
            self._manager.register(loaded, plugin.key)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: being installed must not let it end the program
            return plugin.failed(plugins.cause_of(error))
        self._attribute(loaded, plugin)
        return replace(plugin, status="loaded")

    def _with_parts(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Ask a plugin for its parts; one whose parts are unsound is taken out of use as a whole."""
        if plugin.status != "loaded":
            return plugin
        loaded = self._manager.get_plugin(plugin.key)
        parts: list[Registered] = []
        problems: list[str] = []
        try:
            for listing in self._manager.hook.kit_components.get_hookimpls():
                if listing.plugin is loaded:
                    returned = _settled(listing.function())
                    problems += vetting.part_problems(returned)
                    parts += _registered(returned, plugin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problems.append(plugins.cause_of(error))
        if problems:
            self._manager.unregister(name=plugin.key)
            plugin = plugin.failed("; ".join(problems))
        return replace(plugin, parts=tuple(parts))

    def _attribute(self, loaded: object, plugin: LoadedPlugin) -> None:
        """Let an error inside a hook name the plugin it happened in; pluggy alone would not say."""
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
            raise PluginError(f"{plugin.title} failed in its hook {hook}: {plugins.cause_of(error)}") from error

    return call


def _settled(returned: object) -> object:
    """A list of what a generator gives, so that it can be looked at twice."""
    return list(returned) if inspect.isgenerator(returned) else returned


def _registered(returned: Any, plugin: LoadedPlugin) -> list[Registered]:
    sound = [item for item in returned if vetting.is_part(item)] if isinstance(returned, Iterable) else []
    return [
        Registered(part, part.kind, part.part_name(), plugin.distribution, plugin.version, plugin.name)
        for part in dict.fromkeys(sound)
    ]


def _contract_kinds() -> list[str]:
    """The kinds that the contracts of the kit declare, whether or not a part of each is installed."""
    from kit import contracts

    kinds = set()
    for module in pkgutil.iter_modules(contracts.__path__, f"{contracts.__name__}."):
        for item in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(item) and issubclass(item, Component) and "kind" in vars(item):
                kinds.add(item.kind)
    return sorted(kinds)


def _environment(variable: str) -> list[str]:
    return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]


def _choices(*choices: tuple[str, Sequence[str]]) -> list[Choice]:
    return [Choice(source, tuple(names)) for source, names in choices if names]
