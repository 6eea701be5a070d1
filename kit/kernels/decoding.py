"""Kernels of decoding on a CPU: prepacked linear layers, top-k over beams, the greedy loop, and C shims for inductor.

Shapes: R rows, V vocabulary, K best of it; A sequences of W beams each; S steps at most, N integers that a step takes,
T steps taken; I input features, O output features.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.kernels import linear
from kit.kernels.allocator import place_in_huge_pages, tune_malloc
from kit.kernels.cpp import decode
from kit.kernels.cpp.cpp_build import compiler
from kit.kernels.cpp.op_library import OpLibrary

BEAM_TOPK = OpLibrary("beam_topk", {"beam_topk": None})
GREEDY_LOOP = OpLibrary("greedy_loop", {"multi_step_decode": None})
MIN_MKL_ROWS = 4
"""From so many rows on, MKL's packed format is faster than row-major weights; oneDNN's is for any number."""
PREPACK_ROWS = {"mkl": 160, "onednn": 32}
"""The number of rows for which a library prepacks a weight: it serves any number, and these were fastest."""
MIN_BLOCKED_VOCABULARY = 4096
BLOCK = 64
"""From that vocabulary size on, top-k only searches the blocks of this many tokens that have the highest maxima."""


class PrepackedLinear(nn.Module):
    """A linear layer for inference on a CPU, its weight stored in the back end's packed format.

    A GEMM library copies the right-hand operand into tiles at every call; here that is done once. The back end is
    decode.cpp if there is a C++ compiler, else oneDNN or MKL, whose packed formats inductor cannot take, so that
    compiled steps use the row-major weight.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_OI.shape
        self.backend = _prepacked_backend(weight_OI.dtype)
        self.weight = nn.Parameter(weight_OI.detach(), requires_grad=False)
        self.bias = None if bias_O is None else nn.Parameter(bias_O.detach(), requires_grad=False)
        self.packed: Tensor | None
        packed = decode.prepack_weight(weight_OI) if self.backend == "native" else None
        self.register_buffer("packed", packed, persistent=False)
        self._library_packed: Any = None

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        if self.packed is not None and decode.supports_gemm(x):
            return decode.gemm_prepacked(x, self.packed, self.bias, self.out_features)
        rows = x.numel() // self.in_features
        packed = self.backend == "onednn" or (self.backend == "mkl" and rows >= MIN_MKL_ROWS)
        if not packed or torch.compiler.is_compiling():
            return F.linear(x, self.weight, self.bias)
        return self._by_library(x, rows)

    def _by_library(self, x: Tensor, rows: int) -> Tensor:
        """Uses the library's packed weight, which the first call makes."""
        if self.backend == "onednn":
            if self._library_packed is None:
                self._library_packed = linear.onednn_prepack(self.weight, PREPACK_ROWS["onednn"])
            return linear.onednn_linear(x, self._library_packed, self.bias)
        if self._library_packed is None:
            self._library_packed = torch.ops.mkl._mkl_reorder_linear_weight(
                self.weight.contiguous(), PREPACK_ROWS["mkl"]
            )
        out: Tensor = torch.ops.mkl._mkl_linear(x, self._library_packed, self.weight, self.bias, rows)
        return out


def _prepacked_backend(dtype: torch.dtype) -> str | None:
    """The back end that prepacks weights of this dtype; None if there is none."""
    if dtype != torch.float32:
        return None
    if decode.LIBRARY.load():
        return "native"
    if linear.prefers_onednn():
        return "onednn"
    return "mkl" if torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear") else None


def prepare_for_decoding() -> None:
    """Prepares the process: tunes malloc, loads the top-k kernel, caps the oneDNN primitive cache."""
    tune_malloc()
    BEAM_TOPK.load()
    if linear.prefers_onednn():
        linear.limit_onednn_primitive_cache()


def move_to_huge_pages(layers: Sequence[PrepackedLinear]) -> None:
    """Moves the prepacked weights of layers into huge pages, which a CPU reads faster."""
    prepacked = [layer for layer in layers if layer.packed is not None]
    weights = [layer.packed for layer in prepacked if layer.packed is not None]
    for layer, moved in zip(prepacked, place_in_huge_pages(weights), strict=True):
        layer.packed = moved


def supports_beam_topk(logits_RV: Tensor) -> bool:
    """Whether `beam_topk` supports these logits."""
    float_cpu = logits_RV.device.type == "cpu" and logits_RV.dtype == torch.float32
    return float_cpu and logits_RV.stride(1) == 1 and BEAM_TOPK.loaded


def beam_topk(
    logits_RV: Tensor, suppressed_ids: Tensor, beam_scores_AW: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Fused log_softmax + top-k over the beams of each sequence: scores, beams and token ids, best first, [A, K] each.

    beam_scores_AW: cumulative log-probabilities of live beams, float64. Ties are won by the lower beam and token id.
    """
    most = min(count, beam_scores_AW.shape[1] * logits_RV.shape[1])
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.kit.beam_topk(logits_RV, suppressed_ids, beam_scores_AW, most)
    return found


def topk(x_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the K greatest values of each row and their columns, greatest first."""
    if not _should_search_blocks(x_RV, count):
        values_RK, columns_RK = x_RV.topk(count, 1)
        return values_RK, columns_RK
    values_RK, _, columns_RK = _topk_in_blocks(x_RV, x_RV.new_zeros(x_RV.shape[0], 1), count)
    return values_RK, columns_RK


def topk_of_beams(x_RV: Tensor, beam_scores_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the greatest sums of beam scores and values, best first, with their beams and columns, [A, K] each."""
    if _should_search_blocks(x_RV, count):
        return _topk_in_blocks(x_RV, beam_scores_AW, count)
    gain_RK, column_RK = x_RV.topk(min(count, x_RV.shape[1]), 1)
    total_AC = (beam_scores_AW.reshape(-1, 1) + gain_RK).view(beam_scores_AW.shape[0], -1)
    total_AK, among_AK = total_AC.topk(min(count, total_AC.shape[1]), 1)
    return total_AK, among_AK // gain_RK.shape[1], column_RK.view_as(total_AC).gather(1, among_AK)


def _should_search_blocks(x_RV: Tensor, count: int) -> bool:
    """Whether to search blocks: on a CPU, torch.topk over a long row is slower."""
    size = x_RV.shape[1]
    return x_RV.device.type == "cpu" and size >= MIN_BLOCKED_VOCABULARY and count <= size // BLOCK // 4


def _topk_in_blocks(x_RV: Tensor, beam_scores_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the same as `topk_of_beams` among the blocks with the highest maxima, which must hold the result.

    Shapes: M blocks of B tokens, C candidates.
    """
    (sequences, rows), size = beam_scores_AW.shape, x_RV.shape[1]
    blocked = size // BLOCK * BLOCK
    x_RMB, beam_scores_AW1 = x_RV[:, :blocked].unflatten(1, (-1, BLOCK)), beam_scores_AW[:, :, None]
    blocks = x_RMB.shape[1]
    bound_AC = (x_RMB.amax(2).view(sequences, rows, blocks) + beam_scores_AW1).flatten(1)
    chosen_AK = bound_AC.topk(count, 1, sorted=False).indices
    row_AK, block_AK = chosen_AK // blocks, chosen_AK % blocks
    first_A1 = torch.arange(0, sequences * rows, rows, device=x_RV.device)[:, None]
    total_AC = (x_RMB[first_A1 + row_AK, block_AK] + beam_scores_AW.gather(1, row_AK)[:, :, None]).flatten(1)
    start_AK1 = (row_AK * size + block_AK * BLOCK)[:, :, None]
    column_AC = (start_AK1 + torch.arange(BLOCK, device=x_RV.device)).flatten(1)
    if blocked < size:
        rest_AC = (x_RV[:, blocked:].view(sequences, rows, size - blocked) + beam_scores_AW1).flatten(1)
        column_W1 = torch.arange(0, rows * size, size, device=x_RV.device)[:, None]
        column_C = (column_W1 + torch.arange(blocked, size, device=x_RV.device)).flatten()
        total_AC, column_AC = (
            torch.cat([total_AC, rest_AC], 1),
            torch.cat([column_AC, column_C.expand(sequences, -1)], 1),
        )
    total_AK, among_AK = total_AC.topk(count, 1)
    column_AK = column_AC.gather(1, among_AK)
    return total_AK, column_AK // size, column_AK % size


@dataclass(frozen=True)
class StepIO:
    """I/O binding of a compiled step: which outputs become which inputs of the next step, by index."""

    entry: int
    """The address of the compiled step."""
    ids: int
    """Index of the input that holds the token id."""
    integers: list[int]
    """Indices of the inputs that are integers."""
    feedback: list[int]
    """For each output, the index of the input that it becomes, or -1."""
    logits: int
    """Index of the output that holds the logits."""


def multi_step_decode(
    step_io: StepIO, inputs: Sequence[Tensor], token: int, integers_SN: Tensor, suppressed_ids: Tensor, end: int
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Greedy-decodes up to S compiled steps without Python between them (greedy_loop.cpp).

    Stops after `end`, or if every token is suppressed. Returns log-probabilities [T] and ids [T] of the chosen tokens,
    and the outputs of the last step.
    """
    found: tuple[Tensor, Tensor, list[Tensor]] = torch.ops.kit.multi_step_decode(
        step_io.entry,
        inputs,
        step_io.ids,
        token,
        step_io.integers,
        integers_SN,
        step_io.feedback,
        step_io.logits,
        suppressed_ids,
        end,
    )
    return found


def has_cpp_compiler() -> bool:
    """Whether steps can be compiled here, which takes a C++ compiler."""
    return compiler() is not None


def inductor_c_shims() -> dict[Any, list[str]]:
    """C++ by which inductor calls our operations directly, not through the dispatcher; empty without a library.

    It looks the functions up in the library's file, which is loaded: exporting them globally would export torch's own
    symbols too, and other libraries have functions of the same names.
    """
    if decode.LIBRARY.file is None:
        return {}
    file = json.dumps(str(decode.LIBRARY.file))
    return {
        getattr(torch.ops.kit, name).default: [
            f"""int kit_has_direct_calls;
#include <dlfcn.h>
static inline AOTITorchError aoti_torch_cpu_{name}({parameters}, AtenTensorHandle* out) {{
  static const auto call = reinterpret_cast<decltype(&aoti_torch_cpu_{name})>(
      dlsym(dlopen({file}, RTLD_LAZY), "kit_{name}"));
  return call ? call({arguments}, out) : AOTI_TORCH_FAILURE;
}}"""
        ]
        for name, (parameters, arguments) in decode.C_SIGNATURES.items()
    }
