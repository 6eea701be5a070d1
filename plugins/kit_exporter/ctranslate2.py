"""CTranslate2 export, a C++ inference engine for the Transformers that it supports (Klein et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import PositiveFloat

from kit import EncoderDecoder, Exportable, ExportCheck, Exporter, Options, Problem, Special
from kit_exporter.ctranslate2_check import compare_generation
from kit_exporter.ctranslate2_plan import Planner
from kit_exporter.ctranslate2_spec import specification
from kit_exporter.export_errors import import_or_raise

EXACT = ("float32",)


class Ctranslate2Options(Options):
    """Options of `ctranslate2`."""

    use: Literal["ctranslate2"] = "ctranslate2"
    quantization: Literal["float32", "float16", "bfloat16", "int16", "int8", "int8_float32"] = "float32"
    """The type of stored weights: int8 takes a quarter of the memory, is faster and differs slightly."""
    tolerance: PositiveFloat | None = None
    """The largest difference of a token's log-probability that is accepted; left out, 1e-3 for float32, 2 otherwise."""


class Ctranslate2Exporter(Exporter):
    """Writes a model directory: `model.bin`, `config.json` and vocabularies in which a token's index is its id."""

    options_type = Ctranslate2Options
    options: Ctranslate2Options

    def objections(self, subject: Exportable) -> Iterable[Problem]:
        """Returns an objection to every part that CTranslate2 cannot run."""
        return dict.fromkeys(Planner(subject).problems)

    def write(self, subject: Exportable, folder: Path) -> None:
        """Writes the directory that `ctranslate2.Translator` or `ctranslate2.Generator` opens."""
        import_or_raise("ctranslate2")
        with torch.no_grad():
            spec = specification(Planner(subject), subject.length)
        names = {side: vocabulary(subject, side) for side in ("encoder", "decoder")}
        if isinstance(subject.model, EncoderDecoder):
            spec.register_source_vocabulary(names["encoder"])
            spec.register_target_vocabulary(names["decoder"])
            spec.config.decoder_start_token = names["decoder"][Special.START]
            spec.config.add_source_eos = True
        else:
            spec.register_vocabulary(names["decoder"])
        for token, special in (
            ("bos_token", Special.START),
            ("eos_token", Special.END),
            ("unk_token", Special.UNKNOWN),
        ):
            setattr(spec.config, token, names["decoder"][special])
        spec.validate()
        spec.optimize(quantization=self.options.quantization)
        spec.save(str(folder))

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Compares log-probabilities of given sequences, and greedy decoding."""
        exact, chosen = self.options.quantization in EXACT, self.options.tolerance
        tolerance = (1e-3 if exact else 2.0) if chosen is None else chosen
        names = {side: vocabulary(subject, side) for side in ("encoder", "decoder")}
        return compare_generation(subject, _engine(subject, folder), names, tolerance)


def vocabulary(subject: Exportable, side: str) -> list[str]:
    """Returns a unique name for each token id: its written form, with its id if that is taken."""
    size = int(getattr(subject.model, side).embedding.dims.vocabulary) if hasattr(subject.model, side) else 0
    written = subject.symbols.get(side) or [f"<{each.name.lower()}>" for each in Special] + [
        str(number) for number in range(len(Special), size)
    ]
    names: dict[str, None] = {}
    for number, name in enumerate(written[:size]):
        while name in names or not name:
            name = f"{name}#{number}"
        names[name] = None
    return list(names)


def _engine(subject: Exportable, folder: Path) -> Any:
    engine = import_or_raise("ctranslate2")
    kind = engine.Translator if isinstance(subject.model, EncoderDecoder) else engine.Generator
    return kind(str(folder), device="cpu", inter_threads=1, intra_threads=torch.get_num_threads())
