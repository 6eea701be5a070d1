"""Every key of a recipe and of a study, from the sections that read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from generating.markdown import code, default_text, prose, table, type_words


def recipe_page() -> str:
    """The sections of a recipe."""
    from kit.recipe.sections import AverageSection, ModelSection, Recipe, TokenizerPair, TrainingSection, Vocabularies

    places = {
        "The whole file": Recipe,
        "model": ModelSection,
        "model.vocabulary": Vocabularies,
        "tokenizer": TokenizerPair,
        "training": TrainingSection,
        "training.average": AverageSection,
    }
    intro = (
        "# Recipe keys\n\nA key whose type is a kind of part holds the name of a part, or a mapping that names it with "
        "`use` and gives its options; the [catalogue](catalogue/index.md) has them all. `extends: FILE` at the top "
        "takes over another recipe, and `path=value` on the command line changes one value of it. The layers of "
        "`model.encoder` and `model.decoder` are options of their stack: see "
        "[transformer](catalogue/stack.md#transformer).\n\n"
    )
    return intro + _sections(places)


def study_page() -> str:
    """The sections of a study."""
    from kit_study import sections

    places = {
        "The whole file": sections.StudySection,
        "axes.*": sections.AxisSection,
        "budget": sections.BudgetSection,
        "sweep": sections.SweepSection,
        "search": sections.SearchSection,
        "search.space.*": sections.RangeSection,
        "quick": sections.QuickSection,
    }
    intro = "# Study keys\n\nA study trains a base recipe in many variants and compares them: "
    intro += "[compare parts fairly](../how-to/studies.md).\n\n"
    return intro + _sections(places)


def slot_kinds(field: Any) -> list[str]:
    """The kinds of part that a field holds."""
    found = [item for item in (*field.metadata, *_inside(field.annotation)) if type(item).__name__ == "Slot"]
    return list(dict.fromkeys(item.kind for item in found))


def _inside(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for each in get_args(annotation):
        yield from _inside(each)


def _sections(places: dict[str, Any]) -> str:
    """Each section under its place in the file; where a key holds one of them, it is linked to."""
    text = "\n\n".join(_section(place, section) for place, section in places.items()) + "\n"
    for place, section in places.items():
        anchor = place.lower().replace(".", "").replace("*", "").replace(" ", "-")
        text = text.replace(code(section.__name__), f"[{place.rstrip('.*')}](#{anchor})")
    return text


def _section(place: str, section: Any) -> str:
    properties = section.model_json_schema()["properties"]
    rows = []
    for name, field in section.model_fields.items():
        kinds = slot_kinds(field)
        words = " or ".join(f"[{kind}](catalogue/{kind}.md)" for kind in kinds) or type_words(properties[name])
        if kinds and "list" in str(field.annotation):
            words = f"list of {words}"
        default = "needed" if field.is_required() else default_text(field.get_default(call_default_factory=True))
        rows.append((code(name), words.replace(" or nothing", ""), default, prose(field.description)))
    title = place if place.startswith("The") else code(place)
    return f"## {title}\n\n{prose(section.__doc__)}\n\n{table(('key', 'type', 'default', 'what it does'), rows)}"
