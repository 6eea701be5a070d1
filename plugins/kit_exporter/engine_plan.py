"""Whether CTranslate2 can do what a model does: every part in plain terms, and an objection for each that it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit import EncoderModel, Exportable, Part, Problem
from kit_exporter.blaming import problem_at
from kit_exporter.terms import Terms, terms_of

ENGINE = "CTranslate2"
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "sigmoid": "Sigmoid"}
WORDS = {
    "attention": "heads groups key_width value_width scale query key value output",
    "embedding": "table factor back",
    "feedforward": "activation gate up down",
    "head": "weight bias factor cap",
    "norm": "by scale shift epsilon",
    "position": "added turning pairs base penalty",
    "residual": "place norms",
    "stack": "layers final_norm position masks",
}
"""What CTranslate2 can make use of, by kind."""


@dataclass
class SidePlan:
    """One side of a model in plain terms; the first layer speaks for those that must be alike."""

    embedding: Terms
    embedding_norm: Terms | None
    position: Terms
    final_norm: Terms | None
    layers: list[Mapping[str, Terms]] = field(default_factory=list)
    norms: list[Mapping[str, Terms]] = field(default_factory=list)


class Planner:
    """Goes through a model; `sides` is complete where there are no problems."""

    def __init__(self, subject: Exportable) -> None:
        self.problems: list[Problem] = []
        self.sides: dict[str, SidePlan] = {}
        model: Any = subject.model
        if isinstance(model, EncoderModel):
            self.problems = [
                Problem(f"{ENGINE} writes texts, and a model of the family encoder does not", ("model", "family"))
            ]
            return
        for name in ("encoder", "decoder"):
            if hasattr(model, name):
                self._side(name, getattr(model, name))
        self.head = self.terms(model.head) or {}
        if not self.problems:
            self.problems += dict.fromkeys(self._unlike(model))

    def terms(self, part: Part) -> Terms | None:
        """A part in terms that the engine knows; an objection where there are none."""
        terms = terms_of(part)
        if terms is None:
            self.problems.append(problem_at(part, f"is nothing that {ENGINE} can express"))
            return None
        strange = [word for word in terms if word not in WORDS[part.kind].split()]
        if strange:
            self.problems.append(problem_at(part, f"has a {strange[0]}, which {ENGINE} cannot express"))
            return None
        return terms

    def _side(self, name: str, side: Any) -> None:
        stack = self.terms(side.stack)
        plan = SidePlan(
            self.terms(side.embedding) or {},
            None if side.norm is None else self.terms(side.norm),
            {} if stack is None or stack["position"] is None else self.terms(stack["position"]) or {},
            None if stack is None or stack["final_norm"] is None else self.terms(stack["final_norm"]),
        )
        self.sides[name] = plan
        if stack is None:
            return
        self._masks(name, side.stack, stack["masks"])
        for layer in stack["layers"]:
            if layer["feedforward"] is None:
                self.problems.append(
                    side.stack.site.problem(f"{ENGINE} wants a feedforward in every layer, and there is none")
                )
                return
            parts = {slot: self.terms(part) for slot, part in layer.items() if part is not None}
            if None in parts.values():
                continue
            plan.layers.append({slot: terms for slot, terms in parts.items() if terms is not None})
            norms = {slot: self.terms(norm) for slot, norm in plan.layers[-1]["residual"]["norms"].items()}
            plan.norms.append({slot: terms for slot, terms in norms.items() if terms is not None})

    def _masks(self, side: str, stack: Part, masks: Sequence[Any]) -> None:
        for mask in masks:
            if terms_of(mask) != {"causal": True} or side == "encoder":
                where = (
                    "an encoder that looks both ways" if side == "encoder" else "a decoder that hides the future alone"
                )
                self.problems.append(
                    stack.site.problem(
                        f"the mask {mask.part_name()} is nothing that {ENGINE} can express; it knows {where}", "masks"
                    )
                )

    def _unlike(self, model: Any) -> Iterator[Problem]:
        """What the engine can have only one of."""
        for name, side in self.sides.items():
            site = getattr(model, name).stack.site
            attentions = [layer[slot] for layer in side.layers for slot in layer if slot.endswith("attention")]
            for what, seen in (
                ("numbers of heads", {it["heads"] for it in attentions}),
                ("activations", {layer["feedforward"]["activation"] for layer in side.layers}),
                ("places of the norm", {layer["residual"]["place"] for layer in side.layers}),
                ("feedforwards, with a gate and without", {"gate" in layer["feedforward"] for layer in side.layers}),
                ("kinds of norm", {norm["by"] for norm in self._norms(side)}),
            ):
                if len(seen) > 1:
                    yield site.problem(f"{ENGINE} wants all layers alike, and there are several {what}: {sorted(seen)}")
            for terms in attentions:
                if terms["key_width"] != terms["value_width"]:
                    yield site.problem(f"{ENGINE} wants keys and values of one width, and there are two", "attention")
            for layer in side.layers:
                if layer["feedforward"]["activation"] not in ACTIVATIONS:
                    yield site.problem(f"{ENGINE} has no {layer['feedforward']['activation']}", "feedforward")
            if "penalty" in side.position and name == "encoder":
                yield site.problem(f"{ENGINE} has penalties of distance in decoders only", "position")
        epsilons = {norm["epsilon"] for side in self.sides.values() for norm in self._norms(side)}
        if len(epsilons) > 1:
            yield Problem(
                f"{ENGINE} has one epsilon for all norms, and there are {sorted(epsilons)}", ("model", "norm")
            )

    @staticmethod
    def _norms(side: SidePlan) -> list[Terms]:
        found = [norm for layer in side.norms for norm in layer.values()]
        return [*found, *(norm for norm in (side.final_norm, side.embedding_norm) if norm is not None)]
