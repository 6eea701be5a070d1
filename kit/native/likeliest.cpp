// The likeliest continuations of the rows of each text, straight from scores: nothing as large as the scores is written.
//
// Shapes: R rows, V choices, A texts of W rows each, K best of them.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "choosing.h"

using torch::stable::Tensor;

namespace {

struct Found {
  double total;
  int64_t place;  // row of the text times V, and token
};

// Greater totals first; of equal ones the earlier place. What is not a number comes first, so that it is not overlooked.
inline bool before(const Found& a, const Found& b) {
  if (std::isnan(a.total) || std::isnan(b.total))
    return std::isnan(a.total) && (!std::isnan(b.total) || a.place < b.place);
  return a.total > b.total || (a.total == b.total && a.place < b.place);
}

Tensor empty(int64_t texts, int64_t count, int32_t type) {
  const int64_t sizes[] = {texts, count}, strides[] = {count, 1};
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(2, sizes, strides, type, aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

// scores [R, V] of any scale; never [N]: tokens that are not chosen; live [A, W]: the log-probability of each row so far.
// Totals, which rows of the text, tokens; [A, K] each, the greatest first.
std::tuple<Tensor, Tensor, Tensor> likeliest(Tensor scores, Tensor never, Tensor live, int64_t count) {
  const int64_t rows = scores.size(0), size = scores.size(1), texts = live.size(0), width = live.size(1);
  STD_TORCH_CHECK(scores.scalar_type() == torch::headeronly::ScalarType::Float && scores.stride(1) == 1 &&
                      live.scalar_type() == torch::headeronly::ScalarType::Double && live.is_contiguous() &&
                      never.scalar_type() == torch::headeronly::ScalarType::Long && never.is_contiguous() &&
                      texts * width == rows && count <= width * size,
                  "no choice of ", count, " among ", rows, " rows of ", size, " for ", texts, " texts");
  const float* data = static_cast<const float*>(scores.data_ptr());
  const double* so_far = static_cast<const double*>(live.data_ptr());
  const int64_t* banned = static_cast<const int64_t*>(never.data_ptr());
  const int64_t bans = never.size(0), stride = scores.stride(0), blocks = (size + BLOCK - 1) / BLOCK;
  Tensor totals = empty(texts, count, aoti_torch_dtype_float64()), of_row = empty(texts, count, aoti_torch_dtype_int64()),
         tokens = empty(texts, count, aoti_torch_dtype_int64());
  double* total = static_cast<double*>(totals.data_ptr());
  int64_t *row_of = static_cast<int64_t*>(of_row.data_ptr()), *token = static_cast<int64_t*>(tokens.data_ptr());
  std::vector<double> normal(rows);
  std::vector<float> most(rows * blocks);
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, 4096 / size), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) normal[r] = normalizer(data + r * stride, size, most.data() + r * blocks);
  });
  torch::stable::parallel_for(0, texts, 1, [&](int64_t first, int64_t last) {
    std::vector<Found> best;
    for (int64_t a = first; a < last; ++a) {
      best.clear();
      for (int64_t w = 0; w < width; ++w) {
        const int64_t r = a * width + w;
        const float* row = data + r * stride;
        for (int64_t block = 0; block < blocks; ++block) {
          const bool full = static_cast<int64_t>(best.size()) == count;
          if (full && so_far[r] + (most[r * blocks + block] - normal[r]) < best.back().total) continue;
          for (int64_t at = block * BLOCK; at < std::min(size, (block + 1) * BLOCK); ++at) {
            const bool hidden = is_banned(banned, bans, at);
            const Found found{hidden ? NOTHING : so_far[r] + (row[at] - normal[r]), w * size + at};
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
        row_of[a * count + k] = best[k].place / size;
        token[a * count + k] = best[k].place % size;
      }
    }
  });
  return {totals, of_row, tokens};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("likeliest(Tensor scores, Tensor never, Tensor live, int count) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("likeliest", TORCH_BOX(&likeliest)); }
