"""Every hook with its arguments, from the specifications."""

from __future__ import annotations

from generating.markdown import prose, signature


def page() -> str:
    """All of kit.hookspecs."""
    from kit import hookspecs

    found = [item for item in vars(hookspecs).values() if hasattr(item, "kit_spec")]
    sections = [
        f"## {hook.__name__}\n\n```py\n@hookimpl\ndef {hook.__name__}{signature(hook)}\n```\n\n" + prose(hook.__doc__)
        for hook in found
    ]
    intro = (
        f"# Hooks\n\nWhat a plugin may implement. The plugin is a module, named by an entry point of the group "
        f"`kit.plugins`, with `kit_api = {hookspecs.API_LEVEL}` and any of these functions, marked with "
        f"`@hookimpl` from `kit`. A hook may leave out arguments that it has no use for. A function of another name "
        f"that is marked so is an error when the plugin is loaded, with the nearest name. "
        f"[The smaller kinds](../tutorials/plugin-smaller-kinds.md#hooks) has an example of each."
    )
    return "\n\n".join([intro, *sections]) + "\n"
