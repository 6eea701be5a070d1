// Decode kernels: prepacked small-M GEMM and decode attention.
//
// Shapes: N blocks of 64 output features, I input features, R rows; B rows, H heads, G key-value heads, Q queries, K keys,
// E head_dim of queries and keys, F head_dim of values.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "simd.h"

using torch::stable::Tensor;

namespace {

constexpr int BLOCK = 64;  // output features per block of a prepacked weight
constexpr int VECTORS = 4;  // SIMD vectors per row of a register tile
constexpr int MR = REGISTERS / VECTORS - 2;  // rows of a register tile: 6, or 2
constexpr int64_t PARALLEL_GRAIN = 1 << 14;  // weight elements that are worth a thread
constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

// Micro-kernel: ROWS rows times VECTORS * SIMD_WIDTH columns of a block.
template <int ROWS>
inline void multiply_strip(const float* x, int64_t x_row, const float* strip, int64_t in, float* y) {
  Vec sum[ROWS][VECTORS] = {};
  for (int64_t i = 0; i < in; ++i, strip += BLOCK) {
    Vec column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(strip + v * SIMD_WIDTH);
    for (int r = 0; r < ROWS; ++r) {
      float value = x[r * x_row + i];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += value * column[v];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) store(y + r * BLOCK + v * SIMD_WIDTH, sum[r][v]);
}

template <int ROWS>
void multiply_block(int64_t rows, const float* x, int64_t x_row, const float* block, int64_t in, float* y) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_block<ROWS - 1>(rows, x, x_row, block, in, y);
    for (int strip = 0; strip < BLOCK; strip += VECTORS * SIMD_WIDTH)
      multiply_strip<ROWS>(x, x_row, block + strip, in, y + strip);
  }
}

// A float32 tensor as pointer, sizes and strides; does not own the handle.
struct TensorView {
  float* data;
  int64_t dimensions;
  int64_t *sizes, *strides;

  explicit TensorView(AtenTensorHandle x, int64_t wanted) {
    int32_t type;
    void* start;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(x, &dimensions));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x, &type));
    STD_TORCH_CHECK(dimensions == wanted && type == aoti_torch_dtype_float32(), "wanted: float32 in ", wanted,
                    " dimensions");
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(x, &sizes));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(x, &strides));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(x, &start));
    data = static_cast<float*>(start);
  }

  // Whether the last dimension has unit stride.
  bool is_row_major() const { return strides[dimensions - 1] == 1; }

  bool is_contiguous() const {
    int64_t wanted = 1;
    for (int64_t n = dimensions - 1; n >= 0; wanted *= sizes[n--])
      if (sizes[n] != 1 && strides[n] != wanted) return false;
    return true;
  }
};

AtenTensorHandle empty(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(sizes.size(), sizes.begin(), strides.begin(),
                                                  aoti_torch_dtype_float32(), aoti_torch_device_type_cpu(), 0, &made));
  return made;
}

// The same tensor with unit stride in the last dimension.
Tensor row_major(const Tensor& x) { return x.stride(x.dim() - 1) == 1 ? x : torch::stable::contiguous(x); }

// x [R, I] @ prepacked weight [N, I, 64] + bias: [R, O]; all row-major.
AtenTensorHandle gemm(const TensorView& x, const TensorView& packed, const TensorView* bias, int64_t out) {
  const int64_t rows = x.sizes[0], in = x.sizes[1], blocks = packed.sizes[0];
  STD_TORCH_CHECK(packed.sizes[1] == in && packed.sizes[2] == BLOCK && blocks == (out + BLOCK - 1) / BLOCK &&
                      packed.is_contiguous() && (!bias || bias->sizes[0] == out),
                  "no product: ", in, " input features, ", out, " output features; packed: ", packed.sizes[1],
                  " input features, ", blocks, " blocks");
  const int64_t x_row = x.strides[0];
  AtenTensorHandle y = empty({rows, out}, {out, 1});
  const float *from = x.data, *weight = packed.data, *bias_data = bias ? bias->data : nullptr;
  float* to = TensorView(y, 2).data;
  const int64_t tiles = (rows + MR - 1) / MR;
  const int64_t grain = std::max<int64_t>(1, PARALLEL_GRAIN / std::max<int64_t>(1, in * BLOCK));
  torch::stable::parallel_for(0, blocks, grain, [&](int64_t first, int64_t last) {
    float sums[MR * BLOCK];
    for (int64_t n = first; n < last; ++n) {
      const int64_t columns = std::min<int64_t>(BLOCK, out - n * BLOCK);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t start = rows * t / tiles, end = rows * (t + 1) / tiles;
        multiply_block<MR>(end - start, from + start * x_row, x_row, weight + n * in * BLOCK, in, sums);
        for (int64_t r = start; r < end; ++r)
          for (int64_t c = 0; c < columns; ++c)
            to[r * out + n * BLOCK + c] = sums[(r - start) * BLOCK + c] + (bias_data ? bias_data[n * BLOCK + c] : 0.0f);
      }
    }
  });
  return y;
}

Tensor gemm_prepacked(Tensor x, Tensor packed, std::optional<Tensor> bias, int64_t out) {
  x = row_major(x);
  if (bias) bias = row_major(*bias);
  std::optional<TensorView> bias_view;
  if (bias) bias_view.emplace(bias->get(), 1);
  return Tensor(gemm(TensorView(x.get(), 2), TensorView(packed.get(), 3), bias_view ? &*bias_view : nullptr, out));
}

// The stride of a mask's dimension that is broadcast to `size`.
int64_t broadcast_stride(const TensorView& mask, int64_t dimension, int64_t size) {
  const int64_t own = mask.sizes[dimension];
  STD_TORCH_CHECK(own == 1 || own == size, "a mask of ", own, " for ", size);
  return own == 1 ? 0 : mask.strides[dimension];
}

// Dot products of ROWS queries with all keys, into scores [ROWS, K]; keys that are masked for all of them are skipped.
template <int ROWS>
void compute_scores(const float* const* q, const float* k, int64_t k_token, int64_t k_element, int64_t keys, int64_t width,
                    const char* visible, float* scores) {
  if (k_element != 1) {  // keys are stored transposed
    // The tail vector overlaps the previous one; recomputed scores are identical.
    for (int64_t at = 0; keys >= SIMD_WIDTH && at < keys; at += SIMD_WIDTH) {
      const int64_t from = std::min(at, keys - SIMD_WIDTH);
      Vec sum[ROWS] = {};
      for (int64_t e = 0; e < width; ++e) {
        const Vec column = load(k + e * k_element + from);
        for (int r = 0; r < ROWS; ++r) sum[r] += q[r][e] * column;
      }
      for (int r = 0; r < ROWS; ++r) store(scores + r * keys + from, sum[r]);
    }
    for (int64_t at = 0; keys < SIMD_WIDTH && at < keys; ++at)
      for (int r = 0; r < ROWS; ++r) {
        float sum = 0;
        for (int64_t e = 0; e < width; ++e) sum += q[r][e] * k[e * k_element + at];
        scores[r * keys + at] = sum;
      }
    return;
  }
  for (int64_t at = 0; at < keys; ++at) {
    if (!visible[at]) continue;
    const float* key = k + at * k_token;
    Vec sum[ROWS] = {};
    int64_t e = 0;
    for (; e + SIMD_WIDTH <= width; e += SIMD_WIDTH) {
      const Vec k_piece = load(key + e);
      for (int r = 0; r < ROWS; ++r) sum[r] += load(q[r] + e) * k_piece;
    }
    for (int r = 0; r < ROWS; ++r) {
      float total = horizontal_sum(sum[r]);
      for (int64_t tail = e; tail < width; ++tail) total += q[r][tail] * key[tail];
      scores[r * keys + at] = total;
    }
  }
}

// Scaled, masked softmax over one row in place; zeros if all keys are masked.
void masked_softmax(float* scores, const float* mask, int64_t mask_key, const char* visible, int64_t keys, float scale) {
  float max_score = NEG_INF;
  for (int64_t at = 0; at < keys; ++at) {
    const float score = visible[at] ? scores[at] * scale + (mask ? mask[at * mask_key] : 0.0f) : NEG_INF;
    scores[at] = score;
    max_score = std::max(max_score, score);
  }
  if (max_score == NEG_INF) {  // NaN compares unequal, and stays
    for (int64_t at = 0; at < keys; ++at) scores[at] = scores[at] == NEG_INF ? 0.0f : scores[at];
    return;
  }
  float sum = 0;
  int64_t at = 0;
  for (; at + SIMD_WIDTH <= keys; at += SIMD_WIDTH) {
    const Vec score = load(scores + at);
    const Vec weight = score == NEG_INF ? Vec{} : exp_nonpositive(score - max_score);
    store(scores + at, weight);
    sum += horizontal_sum(weight);
  }
  for (; at < keys; ++at) sum += scores[at] = std::exp(scores[at] - max_score);
  const float normalizer = 1.0f / sum;
  for (at = 0; at < keys; ++at) scores[at] *= normalizer;
}

// Weighted sum of values for ROWS queries, in PIECES * SIMD_WIDTH columns; values that are masked for all are skipped.
template <int ROWS, int PIECES>
inline void weighted_sum_strip(const float* weights, int64_t keys, const char* visible, const float* v, int64_t v_token,
                               float* const* out, int64_t f) {
  Vec sum[ROWS][PIECES] = {};
  for (int64_t at = 0; at < keys; ++at) {
    if (!visible[at]) continue;
    for (int p = 0; p < PIECES; ++p) {
      const Vec piece = load(v + at * v_token + f + p * SIMD_WIDTH);
      for (int r = 0; r < ROWS; ++r) sum[r][p] += weights[r * keys + at] * piece;
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int p = 0; p < PIECES; ++p) store(out[r] + f + p * SIMD_WIDTH, sum[r][p]);
}

template <int ROWS>
void weighted_sum(const float* weights, int64_t keys, const char* visible, const float* v, int64_t v_token, int64_t width,
                  float* const* out) {
  int64_t f = 0;
  for (; f + VECTORS * SIMD_WIDTH <= width; f += VECTORS * SIMD_WIDTH)
    weighted_sum_strip<ROWS, VECTORS>(weights, keys, visible, v, v_token, out, f);
  for (; f + SIMD_WIDTH <= width; f += SIMD_WIDTH) weighted_sum_strip<ROWS, 1>(weights, keys, visible, v, v_token, out, f);
  for (; f < width; ++f)
    for (int r = 0; r < ROWS; ++r) {
      float sum = 0;
      for (int64_t at = 0; at < keys; ++at)
        if (visible[at]) sum += weights[r * keys + at] * v[at * v_token + f];
      out[r][f] = sum;
    }
}

template <int ROWS>
void attend_tile(int64_t rows, const float* const* q, const float* const* mask, int64_t mask_key, const float* k,
                 int64_t k_token, int64_t k_element, const float* v, int64_t v_token, int64_t keys, int64_t width,
                 int64_t value_width, float scale, const char* visible, float* scores, float* const* out) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS)
      return attend_tile<ROWS - 1>(rows, q, mask, mask_key, k, k_token, k_element, v, v_token, keys, width, value_width,
                                   scale, visible, scores, out);
    compute_scores<ROWS>(q, k, k_token, k_element, keys, width, visible, scores);
    for (int r = 0; r < ROWS; ++r) masked_softmax(scores + r * keys, mask[r], mask_key, visible, keys, scale);
    weighted_sum<ROWS>(scores, keys, visible, v, v_token, value_width, out);
  }
}

// Attention of queries [B, H, Q, E] to keys [B, G, K, E] and values [B, G, K, F]; mask: added to scores,
// [B or 1, H or 1, Q or 1, K]. All row-major; keys may be stored transposed. The output [B, H, Q, F] is stored as
// [B, Q, H, F].
AtenTensorHandle attend(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView* mask,
                        double scale) {
  const int64_t rows = q.sizes[0], heads = q.sizes[1], queries = q.sizes[2], width = q.sizes[3],
                kv_heads = k.sizes[1],
                keys = k.sizes[2], value_width = v.sizes[3];
  STD_TORCH_CHECK(k.sizes[0] == rows && v.sizes[0] == rows && v.sizes[1] == kv_heads && v.sizes[2] == keys &&
                      k.sizes[3] == width && kv_heads > 0 && heads % kv_heads == 0,
                  "shapes of queries, keys and values do not match");
  const int64_t heads_per_kv_head = heads / kv_heads;
  AtenTensorHandle y = empty({rows, heads, queries, value_width},
                             {queries * heads * value_width, value_width, heads * value_width, 1});
  float* to = TensorView(y, 4).data;
  const float* mask_data = nullptr;
  int64_t mask_row = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  if (mask) {
    mask_data = mask->data;
    mask_row = broadcast_stride(*mask, 0, rows);
    mask_head = broadcast_stride(*mask, 1, heads);
    mask_query = broadcast_stride(*mask, 2, queries);
    mask_key = broadcast_stride(*mask, 3, keys);
  }
  const int64_t all = heads_per_kv_head * queries;  // query heads are folded into the query axis
  const int64_t work = std::max<int64_t>(1, all * keys * width);
  torch::stable::parallel_for(0, rows * kv_heads, std::max<int64_t>(1, (1 << 15) / work), [&](int64_t first, int64_t last) {
    std::vector<float> scores(MR * keys);
    std::vector<char> visible(keys);  // to some query of a tile
    const float *q_rows[MR], *mask_rows[MR];
    float* out[MR];
    for (int64_t pair = first; pair < last; ++pair) {
      const int64_t b = pair / kv_heads, g = pair % kv_heads;
      for (int64_t start = 0; start < all; start += MR) {
        const int64_t count = std::min<int64_t>(MR, all - start);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t h = g * heads_per_kv_head + (start + r) / queries, query = (start + r) % queries;
          q_rows[r] = q.data + b * q.strides[0] + h * q.strides[1] + query * q.strides[2];
          mask_rows[r] = mask ? mask_data + b * mask_row + h * mask_head + query * mask_query : nullptr;
          out[r] = to + ((b * queries + query) * heads + h) * value_width;
        }
        std::fill(visible.begin(), visible.end(), mask ? 0 : 1);
        if (mask)
          for (int64_t r = 0; r < count; ++r)
            for (int64_t at = 0; at < keys; ++at) visible[at] |= mask_rows[r][at * mask_key] != NEG_INF;
        attend_tile<MR>(count, q_rows, mask_rows, mask_key, k.data + b * k.strides[0] + g * k.strides[1], k.strides[2],
                          k.strides[3], v.data + b * v.strides[0] + g * v.strides[1], v.strides[2], keys, width,
                          value_width, static_cast<float>(scale), visible.data(), scores.data(), out);
      }
    }
  });
  return y;
}

Tensor decode_attention(Tensor q, Tensor k, Tensor v, std::optional<Tensor> mask, double scale) {
  q = row_major(q);
  v = row_major(v);
  if (k.dim() == 4 && k.stride(2) != 1) k = row_major(k);  // else stored transposed
  std::optional<TensorView> mask_view;
  if (mask) mask_view.emplace(mask->get(), 4);
  return Tensor(attend(TensorView(q.get(), 4), TensorView(k.get(), 4), TensorView(v.get(), 4),
                       mask_view ? &*mask_view : nullptr, scale));
}

AtenTensorHandle new_handle(AtenTensorHandle x) {
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(x, &made));
  return made;
}

Tensor owned(AtenTensorHandle x) { return Tensor(new_handle(x)); }

std::optional<Tensor> owned(const AtenTensorHandle* x) { return x ? std::optional(owned(*x)) : std::nullopt; }

// Runs an action that may throw, for compiled code: exception -> error code.
template <typename Action>
AOTITorchError as_error_code(const Action& action) {
  try {
    action();
    return AOTI_TORCH_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return AOTI_TORCH_FAILURE;
  }
}

}  // namespace

// C entry points for compiled steps: torch's dispatcher takes longer than a small GEMM.
extern "C" {

AOTITorchError kit_gemm_prepacked(AtenTensorHandle x, AtenTensorHandle packed, AtenTensorHandle* bias, int64_t out,
                                  AtenTensorHandle* made) {
  return as_error_code([&] {
    const TensorView x_view(x, 2);
    std::optional<TensorView> bias_view;
    if (bias) bias_view.emplace(*bias, 1);
    if (x_view.is_row_major() && (!bias_view || bias_view->is_row_major()))
      *made = gemm(x_view, TensorView(packed, 3), bias_view ? &*bias_view : nullptr, out);
    else
      *made = new_handle(gemm_prepacked(owned(x), owned(packed), owned(bias), out).get());
  });
}

AOTITorchError kit_decode_attention(AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* mask,
                                    double scale, AtenTensorHandle* made) {
  return as_error_code([&] {
    const TensorView q_view(q, 4), k_view(k, 4), v_view(v, 4);
    std::optional<TensorView> mask_view;
    if (mask) mask_view.emplace(*mask, 4);
    if (q_view.is_row_major() && v_view.is_row_major() && (k_view.is_row_major() || k_view.strides[2] == 1))
      *made = attend(q_view, k_view, v_view, mask_view ? &*mask_view : nullptr, scale);
    else
      *made = new_handle(decode_attention(owned(q), owned(k), owned(v), owned(mask), scale).get());
  });
}

}  // extern "C"

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("gemm_prepacked(Tensor x, Tensor packed, Tensor? bias, int out) -> Tensor");
  library.def("decode_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("gemm_prepacked", TORCH_BOX(&gemm_prepacked));
  library.impl("decode_attention", TORCH_BOX(&decode_attention));
}
