"""A few rows times a stored matrix, and attention of a few queries, by C++ of our own (few.cpp).

Libraries are made for large matrices; of what they take for a few rows, half goes by on the way to the product. Ours
reads a matrix once, as fast as memory gives it, for up to six rows at a time, and on the tested processors was not
slower for hundreds. Attention reads keys and values where they lie, and passes over those that no query may see.

Shapes: R rows, I numbers in, O numbers out, N blocks of 64 of them; B rows of a state, H heads, G groups of keys,
Q queries, K keys, E width of a key, F width of a value.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from kit.native.loading import Library

BLOCK = 64
"""Numbers out that lie side by side in a stored matrix."""
FEW = 64
"""Up to so many queries are few."""


def store(weight_OI: Tensor) -> Tensor:
    """A matrix as few_rows reads it, [N, I, 64]; what is missing in the last block is zero."""
    numbers, width = weight_OI.shape
    blocks = -(-numbers // BLOCK)
    padded = torch.nn.functional.pad(weight_OI.detach(), (0, 0, 0, blocks * BLOCK - numbers))
    return padded.view(blocks, BLOCK, width).transpose(1, 2).contiguous()


def multiplies(x: Tensor) -> bool:
    """Whether few_rows can be asked: it knows no gradient, and a graph that is exported has to do without us."""
    return x.dtype == torch.float32 and not x.requires_grad and not torch.compiler.is_exporting()


def few_rows(x: Tensor, stored_NIB: Tensor, bias_O: Tensor | None, numbers: int) -> Tensor:
    """x [..., I] times a stored matrix, the bias added: [..., O]."""
    x_RI = x.reshape(-1, x.shape[-1])
    product: Tensor = torch.ops.kit.few_rows(x_RI, stored_NIB, bias_O, numbers)
    return product.view(*x.shape[:-1], numbers)


def attends(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor) -> bool:
    """Whether few_queries can be asked, and is sooner done than torch's kernel, whose blocks are for many queries."""
    if not LIBRARY.loaded or torch.compiler.is_exporting() or torch.is_grad_enabled() or q_BHQE.shape[2] > FEW:
        return False
    plain = q_BHQE.device.type == "cpu" and q_BHQE.dtype == k_BGKE.dtype == v_BGKF.dtype == torch.float32
    rows = q_BHQE.stride(3) == 1 and v_BGKF.stride(3) == 1
    return plain and rows and (k_BGKE.stride(3) == 1 or k_BGKE.stride(2) == 1)


def few_queries(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Softmax attention: [B, H, Q, F]; mask: what is added to scores, [B or 1, H or 1, Q or 1, K].

    A query that sees nothing gets zeros.
    """
    given: Tensor = torch.ops.kit.few_queries(q_BHQE, k_BGKE, v_BGKF, mask, scale)
    return given


def _shape_of_rows(x: Tensor, stored: Tensor, bias: Tensor | None, out: int) -> Tensor:
    return x.new_empty(x.shape[0], out)


def _shape_of_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    rows, heads, queries, _ = q.shape
    return q.new_empty(rows, queries, heads, v.shape[3]).transpose(1, 2)


LIBRARY = Library("few", {"few_rows": _shape_of_rows, "few_queries": _shape_of_queries})


_DIRECT = {
    "few_rows": (
        "AtenTensorHandle x, AtenTensorHandle stored, AtenTensorHandle* bias, int64_t out",
        "x, stored, bias, out",
    ),
    "few_queries": (
        "AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* mask, double scale",
        "q, k, v, mask, scale",
    ),
}
"""What the operations take in C, and the names of it."""


def direct_calls() -> dict[Any, list[str]]:
    """C++ by which torch's compiler calls these operations without asking for them by name; nothing without a library.

    It finds them in the library's file, which is loaded: to offer them to all of the process by a global name would
    offer what torch is made of too, and other libraries have functions of the same names.
    """
    if LIBRARY.file is None:
        return {}
    file = json.dumps(str(LIBRARY.file))
    return {
        getattr(torch.ops.kit, name).default: [
            f"""int kit_has_direct_calls;
#include <dlfcn.h>
static inline AOTITorchError aoti_torch_cpu_{name}({taken}, AtenTensorHandle* made) {{
  static const auto call = reinterpret_cast<decltype(&aoti_torch_cpu_{name})>(
      dlsym(dlopen({file}, RTLD_LAZY), "kit_{name}"));
  return call ? call({names}, made) : AOTI_TORCH_FAILURE;
}}"""
        ]
        for name, (taken, names) in _DIRECT.items()
    }
