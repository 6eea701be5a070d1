"""Laws of looking into an attention: watching changes nothing, so the fast path is the plain path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit.component import Site
from kit.contracts.attention import Attention
from kit.laws.attending import LONG, SHORT, Attending, Texts
from kit.laws.batches import SIDES
from kit.laws.comparing import close, finite, zero
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.scope import Scope
from kit.watching import Recorder, Watcher


def _abilities(subject: Subject) -> Any:
    assert issubclass(subject.component, Attention)
    return subject.component.abilities


class _Silencer(Watcher):
    """Lets heads give nothing, and counts how often it was asked."""

    asked = 0

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        self.asked += 1
        return torch.zeros_like(out_BHQF)


@law("attention", "Watched equals unwatched, and who watches is shown weights, or told that there are none.")
def watched(subject: Subject) -> None:
    """Weights are [rows, heads, queries, keys], finite, and zero for keys that are hidden."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        texts = attending.texts((3, SHORT))
        recorder = Recorder()
        with torch.no_grad():
            close(texts.real(attending(texts, recorder)), texts.real(attending(texts)), f"{setting.name}, watched")
        name = attending.part.site.name
        if not _abilities(subject).weights:
            if name not in recorder.unseen:
                broken(f"{setting.name}: it declares no weights, and did not tell the watcher so")
            continue
        if name not in recorder.by_site:
            broken(f"{setting.name}: it declares weights, and showed none")
        _check_weights(recorder.by_site[name], attending.scope(texts), texts, setting.name)


@law(
    "attention",
    "The weights of a query that sees something sum to one, where the part declares that they are shares.",
    lambda subject: (
        None
        if _abilities(subject).weights and _abilities(subject).shares
        else "its weights are declared to be no shares"
    ),
)
def shares(subject: Subject) -> None:
    """In every setting."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        texts = attending.texts((3, SHORT))
        recorder = Recorder()
        with torch.no_grad():
            attending(texts, recorder)
        sums = recorder.by_site[attending.part.site.name].sum(-1).transpose(1, 2)
        seeing = attending.scope(texts).seeing
        looking = (
            torch.ones(sums.shape[:2], dtype=torch.bool)
            if seeing is None
            else seeing[:, 0, :, 0].expand(sums.shape[:2])
        )
        looking = looking if texts.valid is None else looking & texts.valid
        close(sums[looking], torch.ones_like(sums[looking]), f"{setting.name}: the sum of weights")


@law("attention", "What a watcher puts in the place of a head's output is what counts.")
def watched_heads(subject: Subject) -> None:
    """A watcher that silences all heads; only where the part shows heads at all."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        texts = attending.texts((SHORT,))
        silencer = _Silencer()
        with torch.no_grad():
            first = attending(texts, silencer)
            if not silencer.asked:
                if _abilities(subject).weights:
                    broken(f"{setting.name}: it has weights, and shows no heads to a watcher")
                continue
            texts.x = texts.x.flip(1)
            silenced = attending(texts, silencer)
        close(
            silenced,
            first.flip(1),
            f"{setting.name}: with all heads silenced, a token's output still depends on others",
        )


@law("attention", "The fast path equals the plain path, with and without masks, for short texts and long ones.")
def fast_path(subject: Subject) -> None:
    """Watching takes the plain path; slopes are compared too."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        for lengths, side in [
            ((LONG,), "right"),
            *(((LONG - 77, LONG), side) for side in SIDES),
            ((2, SHORT), "right"),
        ]:
            texts = attending.texts(lengths, side)
            what = f"{setting.name}, {side} padding, texts of {lengths}"
            outs, slopes = zip(*(_slopes(attending, texts, watcher) for watcher in (None, Recorder())), strict=True)
            close(outs[0], outs[1], what)
            close(slopes[0], slopes[1], f"{what}: the gradient", 1e-8)


def _slopes(attending: Attending, texts: Texts, watcher: Watcher | None) -> tuple[Tensor, Tensor]:
    given = Texts(texts.x.detach().requires_grad_(), texts.valid, texts.memory, texts.memory_valid)
    out = texts.real(attending(given, watcher))
    (slope,) = torch.autograd.grad(out.sin().sum(), given.x)
    return out.detach(), slope


def _check_weights(weights: Tensor, scope: Scope, texts: Texts, what: str) -> None:
    wanted = (scope.queries.rows, scope.queries.length, scope.keys.length)
    if weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != wanted:
        broken(f"{what}: weights are {list(weights.shape)}, wanted [{wanted[0]}, heads, {wanted[1]}, {wanted[2]}]")
    finite(weights, f"{what}: weights")
    if scope.allowed is not None:
        hidden = (~scope.allowed).expand(weights.shape)
        if texts.valid is not None:
            hidden = hidden & texts.valid[:, None, :, None]
        zero(weights * hidden, f"{what}: the weight of a hidden key")
