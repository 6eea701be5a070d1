"""Says which tokens of a constraint a vocabulary does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def unknown_tokens(phrases: Iterable[Iterable[int]], vocabulary: int) -> Iterator[str]:
    """One sentence for each token that is past the end of the vocabulary."""
    for token in sorted({token for phrase in phrases for token in phrase if token >= vocabulary}):
        yield f"it names the token {token}, and the vocabulary ends at {vocabulary - 1}"
