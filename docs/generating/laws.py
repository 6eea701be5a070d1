"""Every law that parts are held to, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generating.markdown import code, prose, table

if TYPE_CHECKING:
    from kit import Kit


def page(kit: Kit) -> str:
    """All of kit.laws."""
    from kit import laws
    from kit.laws.law import EVERY_KIND

    kinds = list(dict.fromkeys(law.kind for law in laws.LAWS.values()))
    intro = (
        f"# Laws\n\n{len(laws.LAWS)} sentences that parts live up to. `kit plugin check` holds a package to them, "
        "`kit.laws.check(MyPart)` a class, and `pytest -p kit.laws --kit-plugin PACKAGE` makes a test of each. A law "
        "that concerns something a part does not claim to do is left out for it. Every law has a part that breaks it, "
        "in the tests of the kit, so that it is known to notice.\n\n"
    )
    sections = []
    for kind in sorted(kinds, key=lambda kind: (kind == EVERY_KIND, kind)):
        title = "Every part that sits in a model" if kind == EVERY_KIND else kind.capitalize()
        rows = [(code(law.name), prose(law.sentence)) for law in laws.LAWS.values() if law.kind == kind]
        sections.append(f"## {title}\n\n{table(('law', 'what it says'), rows)}")
    return intro + "\n\n".join(sections) + "\n"
