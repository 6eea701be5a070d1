"""The final weights of a run, with their SHA-256 in a file beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from kit.files.atomic import explain_os_errors, sha256_of, write_text
from kit.files.tensors import read_tensors, replace_tensors
from kit.runs.run_directory import RunDirectory, RunError

_DIGEST = re.compile(r"([0-9a-f]{64}) [ *]weights\.safetensors\n?")


def save_weights(run: RunDirectory, tensors: Mapping[str, Tensor]) -> None:
    """Write the weights, then their SHA-256; after a kill in between the weights are not verified."""
    with explain_os_errors(run.weights_digest):
        run.weights_digest.unlink(missing_ok=True)  # the digest of the old weights
    replace_tensors(run.weights, tensors)
    write_digest(run)


def write_digest(run: RunDirectory) -> None:
    """Write the SHA-256 of the weights in the format of `sha256sum`."""
    write_text(run.weights_digest, f"{sha256_of(run.weights)}  {run.weights.name}\n")


def read_weights(run: RunDirectory) -> dict[str, Tensor]:
    """Read the weights; RunError if their SHA-256 does not match. Weights without one are not verified."""
    wanted = _digest(run)
    if wanted is not None and (found := sha256_of(run.weights)) != wanted:
        raise RunError(
            f"{run.weights} does not hold what was written: its SHA-256 is {found[:12]}…, "
            f"and {run.weights_digest.name} says {wanted[:12]}….\n    {_remedy(run)}"
        )
    return read_tensors(run.weights)


def _digest(run: RunDirectory) -> str | None:
    try:
        text = run.weights_digest.read_text()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{run.weights_digest} cannot be read ({error}).\n    {_remedy(run)}") from error
    match = _DIGEST.fullmatch(text)
    if match is None:
        raise RunError(
            f"{run.weights_digest}: found {text[:20]!r}, wanted the SHA-256 of weights.safetensors and its name.\n"
            f"    {_remedy(run)}"
        )
    return match[1]


def _remedy(run: RunDirectory) -> str:
    if run.checkpoints.is_dir() and any(run.checkpoints.glob("step-*")):
        return f"make both again from its checkpoints: kit resume {run.label}"
    return "take another copy of the run"
