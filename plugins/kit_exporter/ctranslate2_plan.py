"""Export plan for CTranslate2: the description of every part, and an objection to each that it cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kit import EncoderModel, Exportable, Part, Problem
from kit_exporter.export_errors import problem_at
from kit_exporter.part_description import Description, describe

ENGINE = "CTranslate2"
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "sigmoid": "Sigmoid"}
TERMS = {
    "attention": "heads kv_heads head_dim value_head_dim scale query key value output",
    "embedding": "table scale output",
    "feedforward": "activation gate up down",
    "head": "weight bias scale logit_softcap",
    "norm": "type weight bias epsilon",
    "position": "table rotary_dim rotary_layout rotary_base alibi",
    "residual": "norm_position norms",
    "stack": "layers final_norm position masks",
}
"""The terms that CTranslate2 supports, by kind."""


@dataclass
class TowerPlan:
    """The descriptions of one tower; options that CTranslate2 has once are taken from its first layer."""

    embedding: Description
    embedding_norm: Description | None
    position: Description
    final_norm: Description | None
    layers: list[Mapping[str, Description]] = field(default_factory=list)
    norms: list[Mapping[str, Description]] = field(default_factory=list)


class Planner:
    """Describes a model part by part; `towers` is complete if there are no problems."""

    def __init__(self, subject: Exportable) -> None:
        self.problems: list[Problem] = []
        self.towers: dict[str, TowerPlan] = {}
        model: Any = subject.model
        if isinstance(model, EncoderModel):
            self.problems = [
                Problem(f"{ENGINE} writes texts, and a model of the family encoder does not", ("model", "family"))
            ]
            return
        for name in ("encoder", "decoder"):
            if hasattr(model, name):
                self._tower(name, getattr(model, name))
        self.head = self.terms(model.head) or {}
        if not self.problems:
            self.problems += dict.fromkeys(self._differences(model))

    def terms(self, part: Part) -> Description | None:
        """Returns the description of a part; None, and an objection, if the engine does not support it."""
        terms = describe(part)
        if terms is None:
            self.problems.append(problem_at(part, f"is nothing that {ENGINE} can express"))
            return None
        unknown = [term for term in terms if term not in TERMS[part.kind].split()]
        if unknown:
            self.problems.append(problem_at(part, f"has a {unknown[0]}, which {ENGINE} cannot express"))
            return None
        return terms

    def _tower(self, name: str, tower: Any) -> None:
        stack = self.terms(tower.stack)
        plan = TowerPlan(
            self.terms(tower.embedding) or {},
            None if tower.norm is None else self.terms(tower.norm),
            {} if stack is None or stack["position"] is None else self.terms(stack["position"]) or {},
            None if stack is None or stack["final_norm"] is None else self.terms(stack["final_norm"]),
        )
        self.towers[name] = plan
        if stack is None:
            return
        self._masks(name, tower.stack, stack["masks"])
        for layer in stack["layers"]:
            if layer["feedforward"] is None:
                self.problems.append(
                    tower.stack.build_context.problem(f"{ENGINE} wants a feedforward in every layer, and there is none")
                )
                return
            parts = {slot: self.terms(part) for slot, part in layer.items() if part is not None}
            if None in parts.values():
                continue
            plan.layers.append({slot: terms for slot, terms in parts.items() if terms is not None})
            norms = {slot: self.terms(norm) for slot, norm in plan.layers[-1]["residual"]["norms"].items()}
            plan.norms.append({slot: terms for slot, terms in norms.items() if terms is not None})

    def _masks(self, tower: str, stack: Part, masks: Sequence[Any]) -> None:
        for mask in masks:
            if describe(mask) != {"causal": True} or tower == "encoder":
                where = (
                    "an encoder that looks both ways" if tower == "encoder" else "a decoder that hides the future alone"
                )
                self.problems.append(
                    stack.build_context.problem(
                        f"the mask {mask.name()} is nothing that {ENGINE} can express; it knows {where}", "masks"
                    )
                )

    def _differences(self, model: Any) -> Iterator[Problem]:
        """Yields objections to differences that the engine does not support."""
        for name, tower in self.towers.items():
            build_context = getattr(model, name).stack.build_context
            attentions = [layer[slot] for layer in tower.layers for slot in layer if slot.endswith("attention")]
            for what, seen in (
                ("numbers of heads", {it["heads"] for it in attentions}),
                ("activations", {layer["feedforward"]["activation"] for layer in tower.layers}),
                ("positions of the norm", {layer["residual"]["norm_position"] for layer in tower.layers}),
                ("feedforwards, with a gate and without", {"gate" in layer["feedforward"] for layer in tower.layers}),
                ("kinds of norm", {norm["type"] for norm in self._norms(tower)}),
            ):
                if len(seen) > 1:
                    yield build_context.problem(
                        f"{ENGINE} wants all layers alike, and there are several {what}: {sorted(seen)}"
                    )
            for terms in attentions:
                if terms["head_dim"] != terms["value_head_dim"]:
                    yield build_context.problem(
                        f"{ENGINE} wants keys and values of one width, and there are two", "attention"
                    )
            for layer in tower.layers:
                if layer["feedforward"]["activation"] not in ACTIVATIONS:
                    yield build_context.problem(f"{ENGINE} has no {layer['feedforward']['activation']}", "feedforward")
            if "alibi" in tower.position and name == "encoder":
                yield build_context.problem(f"{ENGINE} has penalties of distance in decoders only", "position")
        epsilons = {norm["epsilon"] for tower in self.towers.values() for norm in self._norms(tower)}
        if len(epsilons) > 1:
            yield Problem(
                f"{ENGINE} has one epsilon for all norms, and there are {sorted(epsilons)}", ("model", "norm")
            )

    @staticmethod
    def _norms(tower: TowerPlan) -> list[Description]:
        found = [norm for layer in tower.norms for norm in layer.values()]
        return [*found, *(norm for norm in (tower.final_norm, tower.embedding_norm) if norm is not None)]
