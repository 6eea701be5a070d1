"""Writes the reference from what is installed: parts, hooks, commands, keys of recipes and the public names of kit."""

from __future__ import annotations

from generating import catalogue, commands, hooks, keys, laws, names


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/, as Markdown."""
    from kit import Kit

    kit = Kit()
    return {
        "reference/index.md": INDEX,
        **catalogue.pages(kit),
        "reference/hooks.md": hooks.page(),
        "reference/commands.md": commands.page(),
        "reference/recipe.md": keys.recipe_page(),
        "reference/study.md": keys.study_page(),
        "reference/laws.md": laws.page(kit),
        "reference/api.md": names.page(),
    }


INDEX = """# Reference

Made from the code each time the documentation is built, so that it cannot say anything else than the code does.

| page | what is on it |
|---|---|
| [Catalogue](catalogue/index.md) | every part that is installed, with its options and what it can do |
| [Recipe keys](recipe.md) | every key of a recipe, its type and its default |
| [Study keys](study.md) | every key of a study |
| [Commands](commands.md) | every command of `kit`, with its arguments and options |
| [Hooks](hooks.md) | what a plugin may implement, with every argument |
| [Laws](laws.md) | what every part is held to |
| [Python](api.md) | what `from kit import ...` offers |
| [What goes with what](../compatibility.md) | which parts can be combined |
"""
