"""BLEU (Papineni et al. 2002) as sacrebleu computes it (Post 2018), with its signature."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from kit import KitError, Results
from kit_metric.answers import AnswerMetric, LabelledOptions


class BleuOptions(LabelledOptions):
    """Options of `bleu`."""

    use: Literal["bleu"] = "bleu"
    lowercase: bool = False
    """Whether capitals count as small letters."""
    tokenize: Literal["13a", "intl", "char", "none", "zh"] = "13a"
    """How sacrebleu cuts text into words."""


class BleuMetric(AnswerMetric):
    """Over the whole set of answers, against raw references."""

    options_type = BleuOptions
    options: BleuOptions
    lower_is_better = False

    def measure(self, results: Results) -> float:
        """0 to 100."""
        most = max((len(answer.references) for answer in results.answers), default=0)
        if not most:
            return 0.0
        # Where an example has fewer references than others, its first fills the place: it changes no n-gram count.
        filled = [it.references + it.references[:1] * most for it in results.answers]
        streams = [[references[place] for references in filled] for place in range(most)]
        self._scorer = self._new_scorer()
        return float(self._scorer.corpus_score([answer.text for answer in results.answers], streams).score)

    def signature(self) -> str:
        """sacrebleu's."""
        scorer = getattr(self, "_scorer", None)
        return "" if scorer is None else str(scorer.get_signature())

    def _new_scorer(self) -> Any:
        try:
            metrics = import_module("sacrebleu.metrics")
        except ImportError as error:
            hint = "pip install 'kitformer[metrics]'"
            raise KitError(f"BLEU is measured with sacrebleu, which is missing: {hint}") from error
        return metrics.BLEU(lowercase=self.options.lowercase, tokenize=self.options.tokenize)
