"""The words of the field are found in the docs: defined in the glossary, used on other pages, linked to the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
TERMS = (
    "logits",
    "KV cache",
    "grouped-query attention",
    "key-value heads",
    "positional encoding",
    "padding mask",
    "causal mask",
    "cu_seqlens",
    "varlen",
    "GEMM",
    "mixed precision",
    "gradient accumulation",
    "gradient clipping",
    "learning rate",
    "weight decay",
    "label smoothing",
    "early stopping",
    "warmup",
    "sequence length",
    "vocabulary",
    "checkpoint",
    "tensor parallel",
    "FSDP",
    "DDP",
    "beam search",
    "greedy decoding",
    "length penalty",
    "perplexity",
    "cross-attention",
    "self-attention",
    "layer norm",
    "pre-norm",
    "post-norm",
    "feed-forward network",
    "mixture of experts",
    "sliding window",
    "head pruning",
    "attention rollout",
    "saliency",
    "embedding",
    "scaled dot-product attention",
    "multi-head attention",
)


def entries(text: str) -> dict[str, str]:
    """Definition by term, in lower case."""
    found = re.split(r"^### (.+)$", text, flags=re.MULTILINE)[1:]
    return {term.lower(): body.split("\n## ")[0].strip() for term, body in zip(found[::2], found[1::2], strict=True)}


def lacks(term: str, defined: dict[str, str], pages: dict[str, str]) -> str:
    """What is wrong with a term; empty where nothing is."""
    if len(defined.get(term.lower(), "").partition("Code:")[0]) < 40:
        return f"{term!r} is not defined in docs/glossary.md"
    if not any(term.lower() in page for page in pages.values()):
        return f"{term!r} stands on no page but the glossary"
    return ""


@pytest.fixture(scope="module")
def defined() -> dict[str, str]:
    return entries(GLOSSARY.read_text())


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Text by page, in lower case, with lines joined."""
    found = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    return {str(page): " ".join(page.read_text().lower().split()) for page in found if page != GLOSSARY}


@pytest.mark.parametrize("term", TERMS)
def test_a_word_of_the_field_is_defined_and_used(term, defined, pages):
    assert not lacks(term, defined, pages), lacks(term, defined, pages)


def test_a_word_that_is_not_there_is_missed(defined, pages):
    assert "not defined" in lacks("flux capacitor", defined, pages)
    assert "no page" in lacks("logits", defined, {})


def test_every_entry_leads_to_code_that_is_there(defined):
    assert len(defined) > 40
    for term, body in defined.items():
        paths = re.findall(r"`((?:kit|plugins)/[\w/.]+)`", body)
        assert paths, f"{term} names no place in the code"
        gone = [path for path in paths if not (ROOT / path).exists()]
        assert not gone, f"{term} leads to {gone}, which is not there"


def test_names_in_brackets_stand_in_the_file_that_is_named(defined):
    for term, body in defined.items():
        for path, names in re.findall(r"`((?:kit|plugins)/[\w/.]+\.py)` \(([^)]*)\)", body):
            text = (ROOT / path).read_text()
            for name in re.findall(r"`([\w.]+)`", names):
                assert name.rpartition(".")[2] in text, f"{term}: {name} is not in {path}"
