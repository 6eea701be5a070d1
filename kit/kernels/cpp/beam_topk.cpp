// Fused log_softmax + top-k over the beams of each sequence: no tensor as large as the logits is written.
//
// Shapes: R rows, V vocabulary, A sequences of W beams each, K best continuations.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "log_sum_exp.h"

using torch::stable::Tensor;

namespace {

struct Candidate {
  double total;
  int64_t index;  // beam of the sequence * V + token
};

// Greater totals first, ties by lower index. NaN comes first, so that it is not overlooked.
inline bool before(const Candidate& a, const Candidate& b) {
  if (std::isnan(a.total) || std::isnan(b.total))
    return std::isnan(a.total) && (!std::isnan(b.total) || a.index < b.index);
  return a.total > b.total || (a.total == b.total && a.index < b.index);
}

Tensor empty(int64_t sequences, int64_t count, int32_t type) {
  const int64_t sizes[] = {sequences, count}, strides[] = {count, 1};
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(2, sizes, strides, type, aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

// logits [R, V]; suppressed_ids [N]; beam_scores [A, W]: cumulative log-probabilities of live beams, float64.
// Returns totals, beams and tokens, [A, K] each, the greatest first.
std::tuple<Tensor, Tensor, Tensor> beam_topk(Tensor logits, Tensor suppressed_ids, Tensor beam_scores, int64_t count) {
  const int64_t rows = logits.size(0), size = logits.size(1), sequences = beam_scores.size(0),
                width = beam_scores.size(1);
  STD_TORCH_CHECK(logits.scalar_type() == torch::headeronly::ScalarType::Float && logits.stride(1) == 1 &&
                      beam_scores.scalar_type() == torch::headeronly::ScalarType::Double &&
                      beam_scores.is_contiguous() && suppressed_ids.is_contiguous() &&
                      suppressed_ids.scalar_type() == torch::headeronly::ScalarType::Long &&
                      sequences * width == rows && count <= width * size,
                  "no choice of ", count, " among ", rows, " rows of ", size, " for ", sequences, " sequences");
  const float* data = static_cast<const float*>(logits.data_ptr());
  const double* so_far = static_cast<const double*>(beam_scores.data_ptr());
  const int64_t* suppressed = static_cast<const int64_t*>(suppressed_ids.data_ptr());
  const int64_t suppressed_count = suppressed_ids.size(0), stride = logits.stride(0),
                blocks = (size + BLOCK - 1) / BLOCK;
  Tensor totals = empty(sequences, count, aoti_torch_dtype_float64()),
         beams = empty(sequences, count, aoti_torch_dtype_int64()),
         tokens = empty(sequences, count, aoti_torch_dtype_int64());
  double* total = static_cast<double*>(totals.data_ptr());
  int64_t *beam = static_cast<int64_t*>(beams.data_ptr()), *token = static_cast<int64_t*>(tokens.data_ptr());
  std::vector<double> log_sum(rows);
  std::vector<float> block_max(rows * blocks);
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, 4096 / size), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      log_sum[r] = log_sum_exp(data + r * stride, size, block_max.data() + r * blocks);
  });
  torch::stable::parallel_for(0, sequences, 1, [&](int64_t first, int64_t last) {
    std::vector<Candidate> best;
    for (int64_t a = first; a < last; ++a) {
      best.clear();
      for (int64_t w = 0; w < width; ++w) {
        const int64_t r = a * width + w;
        const float* row = data + r * stride;
        for (int64_t block = 0; block < blocks; ++block) {
          const bool full = static_cast<int64_t>(best.size()) == count;
          if (full && so_far[r] + (block_max[r * blocks + block] - log_sum[r]) < best.back().total) continue;
          for (int64_t at = block * BLOCK; at < std::min(size, (block + 1) * BLOCK); ++at) {
            const bool is_hidden = is_suppressed(suppressed, suppressed_count, at);
            const Candidate found{is_hidden ? NEG_INF : so_far[r] + (row[at] - log_sum[r]), w * size + at};
            if (static_cast<int64_t>(best.size()) == count) {
              if (!before(found, best.back())) continue;
              best.pop_back();
            }
            best.insert(std::upper_bound(best.begin(), best.end(), found, before), found);
          }
        }
      }
      for (int64_t k = 0; k < count; ++k) {
        total[a * count + k] = best[k].total;
        beam[a * count + k] = best[k].index / size;
        token[a * count + k] = best[k].index % size;
      }
    }
  });
  return {totals, beams, tokens};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("beam_topk(Tensor logits, Tensor suppressed_ids, Tensor beam_scores, int count) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("beam_topk", TORCH_BOX(&beam_topk)); }
