// What a CPU does again and again while it writes a few rows: a product with a stored matrix, and attention.
//
// Shapes: N blocks of 64 numbers out, I numbers in, R rows; B rows of a state, H heads, G groups of keys, Q queries,
// K keys, E width of a key, F width of a value.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "lanes.h"

using torch::stable::Tensor;

namespace {

constexpr int BLOCK = 64;  // numbers out that lie side by side in a stored matrix
constexpr int VECTORS = 4;  // of one row that are added up at a time
constexpr int MOST = REGISTERS / VECTORS - 2;  // rows that are added up at a time: 6, or 2
constexpr int64_t ENOUGH = 1 << 14;  // numbers of a matrix that are worth a thread
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

// ROWS rows times a strip of VECTORS * LANES columns of a block.
template <int ROWS>
inline void multiply_strip(const float* x, int64_t x_row, const float* strip, int64_t in, float* y) {
  Lanes sum[ROWS][VECTORS] = {};
  for (int64_t i = 0; i < in; ++i, strip += BLOCK) {
    Lanes column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(strip + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      float number = x[r * x_row + i];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += number * column[v];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) store(y + r * BLOCK + v * LANES, sum[r][v]);
}

template <int ROWS>
void multiply_block(int64_t rows, const float* x, int64_t x_row, const float* block, int64_t in, float* y) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_block<ROWS - 1>(rows, x, x_row, block, in, y);
    for (int strip = 0; strip < BLOCK; strip += VECTORS * LANES)
      multiply_strip<ROWS>(x, x_row, block + strip, in, y + strip);
  }
}

Tensor empty(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides, int32_t type) {
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      sizes.size(), sizes.begin(), strides.begin(), type, aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

void expect(const Tensor& x, int64_t dimensions) {
  STD_TORCH_CHECK(x.dim() == dimensions && x.scalar_type() == torch::headeronly::ScalarType::Float,
                  "wanted: float32 in ", dimensions, " dimensions");
}

// The same tensor, the numbers of a row side by side.
Tensor in_rows(const Tensor& x) { return x.stride(x.dim() - 1) == 1 ? x : torch::stable::contiguous(x); }

// x [R, I] times a matrix stored as [N, I, 64], bias added: [R, O].
Tensor few_rows(Tensor x, Tensor stored, std::optional<Tensor> bias, int64_t out) {
  expect(x, 2);
  expect(stored, 3);
  if (bias) expect(*bias, 1);
  const int64_t rows = x.size(0), in = x.size(1), blocks = stored.size(0);
  STD_TORCH_CHECK(stored.size(1) == in && stored.size(2) == BLOCK && blocks == (out + BLOCK - 1) / BLOCK &&
                      stored.is_contiguous() && (!bias || bias->size(0) == out),
                  "no product: ", in, " numbers in, ", out, " out; stored: ", stored.size(1), " in, ", blocks, " blocks");
  x = in_rows(x);
  if (bias) bias = in_rows(*bias);
  const int64_t x_row = x.stride(0);
  Tensor y = empty({rows, out}, {out, 1}, aoti_torch_dtype_float32());
  const float* from = static_cast<const float*>(x.data_ptr());
  const float* matrix = static_cast<const float*>(stored.data_ptr());
  const float* added = bias ? static_cast<const float*>(bias->data_ptr()) : nullptr;
  float* to = static_cast<float*>(y.data_ptr());
  const int64_t times = (rows + MOST - 1) / MOST;
  const int64_t enough = std::max<int64_t>(1, ENOUGH / std::max<int64_t>(1, in * BLOCK));
  torch::stable::parallel_for(0, blocks, enough, [&](int64_t first, int64_t last) {
    float sums[MOST * BLOCK];
    for (int64_t n = first; n < last; ++n) {
      const int64_t columns = std::min<int64_t>(BLOCK, out - n * BLOCK);
      for (int64_t t = 0; t < times; ++t) {
        const int64_t start = rows * t / times, end = rows * (t + 1) / times;
        multiply_block<MOST>(end - start, from + start * x_row, x_row, matrix + n * in * BLOCK, in, sums);
        for (int64_t r = start; r < end; ++r)
          for (int64_t c = 0; c < columns; ++c)
            to[r * out + n * BLOCK + c] = sums[(r - start) * BLOCK + c] + (added ? added[n * BLOCK + c] : 0.0f);
      }
    }
  });
  return y;
}

struct Strided {
  const float* data;
  int64_t row, head, token, number;

  explicit Strided(const Tensor& x)
      : data(static_cast<const float*>(x.data_ptr())), row(x.stride(0)), head(x.stride(1)), token(x.stride(2)),
        number(x.stride(3)) {}
};

// From one of `size` to the next in a dimension of a mask; where it has a single one, that is for all.
int64_t step(const Tensor& mask, int64_t dimension, int64_t size) {
  const int64_t own = mask.size(dimension);
  STD_TORCH_CHECK(own == 1 || own == size, "a mask of ", own, " for ", size);
  return own == 1 ? 0 : mask.stride(dimension);
}

// Dot products of some queries with all keys, into scores [queries, K]; keys that no query sees are left out.
template <int ROWS>
void score(const float* const* q, const float* k, int64_t token, int64_t number, int64_t keys, int64_t width,
           const char* seen, float* scores) {
  if (number != 1) {  // by column
    // The last keys are taken with some before them, which gives those the same scores again.
    for (int64_t at = 0; keys >= LANES && at < keys; at += LANES) {
      const int64_t from = std::min(at, keys - LANES);
      Lanes sum[ROWS] = {};
      for (int64_t e = 0; e < width; ++e) {
        const Lanes column = load(k + e * number + from);
        for (int r = 0; r < ROWS; ++r) sum[r] += q[r][e] * column;
      }
      for (int r = 0; r < ROWS; ++r) store(scores + r * keys + from, sum[r]);
    }
    for (int64_t at = 0; keys < LANES && at < keys; ++at)
      for (int r = 0; r < ROWS; ++r) {
        float sum = 0;
        for (int64_t e = 0; e < width; ++e) sum += q[r][e] * k[e * number + at];
        scores[r * keys + at] = sum;
      }
    return;
  }
  for (int64_t at = 0; at < keys; ++at) {
    if (!seen[at]) continue;
    const float* key = k + at * token;
    Lanes sum[ROWS] = {};
    int64_t e = 0;
    for (; e + LANES <= width; e += LANES) {
      const Lanes piece = load(key + e);
      for (int r = 0; r < ROWS; ++r) sum[r] += load(q[r] + e) * piece;
    }
    for (int r = 0; r < ROWS; ++r) {
      float total = sum_of(sum[r]);
      for (int64_t rest = e; rest < width; ++rest) total += q[r][rest] * key[rest];
      scores[r * keys + at] = total;
    }
  }
}

// Scores to weights that sum to one; all zero where no key may be seen.
void weigh(float* scores, const float* mask, int64_t mask_key, const char* seen, int64_t keys, float scale) {
  float most = NOTHING;
  for (int64_t at = 0; at < keys; ++at) {
    const float one = seen[at] ? scores[at] * scale + (mask ? mask[at * mask_key] : 0.0f) : NOTHING;
    scores[at] = one;
    most = std::max(most, one);
  }
  if (most == NOTHING) {  // what is not a number is greater than nothing, and stays
    for (int64_t at = 0; at < keys; ++at) scores[at] = scores[at] == NOTHING ? 0.0f : scores[at];
    return;
  }
  float sum = 0;
  int64_t at = 0;
  for (; at + LANES <= keys; at += LANES) {
    const Lanes one = load(scores + at);
    const Lanes weight = one == NOTHING ? Lanes{} : exponential(one - most);
    store(scores + at, weight);
    sum += sum_of(weight);
  }
  for (; at < keys; ++at) sum += scores[at] = std::exp(scores[at] - most);
  const float share = 1.0f / sum;
  for (at = 0; at < keys; ++at) scores[at] *= share;
}

// Values by weight in a strip of PIECES * LANES numbers, for some queries; those that no query sees are left out.
template <int ROWS, int PIECES>
inline void mix_strip(const float* weights, int64_t keys, const char* seen, const float* v, int64_t token,
                      float* const* out, int64_t f) {
  Lanes sum[ROWS][PIECES] = {};
  for (int64_t at = 0; at < keys; ++at) {
    if (!seen[at]) continue;
    for (int p = 0; p < PIECES; ++p) {
      const Lanes piece = load(v + at * token + f + p * LANES);
      for (int r = 0; r < ROWS; ++r) sum[r][p] += weights[r * keys + at] * piece;
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int p = 0; p < PIECES; ++p) store(out[r] + f + p * LANES, sum[r][p]);
}

template <int ROWS>
void mix(const float* weights, int64_t keys, const char* seen, const float* v, int64_t token, int64_t width,
         float* const* out) {
  int64_t f = 0;
  for (; f + VECTORS * LANES <= width; f += VECTORS * LANES)
    mix_strip<ROWS, VECTORS>(weights, keys, seen, v, token, out, f);
  for (; f + LANES <= width; f += LANES) mix_strip<ROWS, 1>(weights, keys, seen, v, token, out, f);
  for (; f < width; ++f)
    for (int r = 0; r < ROWS; ++r) {
      float sum = 0;
      for (int64_t at = 0; at < keys; ++at)
        if (seen[at]) sum += weights[r * keys + at] * v[at * token + f];
      out[r][f] = sum;
    }
}

template <int ROWS>
void attend_some(int64_t rows, const float* const* q, const float* const* mask, int64_t mask_key, const float* k,
                 int64_t k_token, int64_t k_number, const float* v, int64_t v_token, int64_t keys, int64_t width,
                 int64_t value_width, float scale, const char* seen, float* scores, float* const* out) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS)
      return attend_some<ROWS - 1>(rows, q, mask, mask_key, k, k_token, k_number, v, v_token, keys, width, value_width,
                                   scale, seen, scores, out);
    score<ROWS>(q, k, k_token, k_number, keys, width, seen, scores);
    for (int r = 0; r < ROWS; ++r) weigh(scores + r * keys, mask[r], mask_key, seen, keys, scale);
    mix<ROWS>(scores, keys, seen, v, v_token, value_width, out);
  }
}

// Attention of queries [B, H, Q, E] to keys [B, G, K, E] and values [B, G, K, F]; mask: what is added to scores,
// [B or 1, H or 1, Q or 1, K]. What heads give lies side by side, as [B, Q, H, F], and is returned as [B, H, Q, F].
Tensor few_queries(Tensor q, Tensor k, Tensor v, std::optional<Tensor> mask, double scale) {
  for (const Tensor* each : {&q, &k, &v}) expect(*each, 4);
  const int64_t rows = q.size(0), heads = q.size(1), queries = q.size(2), width = q.size(3), groups = k.size(1),
                keys = k.size(2), value_width = v.size(3);
  STD_TORCH_CHECK(k.size(0) == rows && v.size(0) == rows && v.size(1) == groups && v.size(2) == keys &&
                      k.size(3) == width && groups > 0 && heads % groups == 0,
                  "queries, keys and values do not fit together");
  q = in_rows(q);
  v = in_rows(v);
  if (k.stride(2) != 1) k = in_rows(k);  // else by column
  const int64_t share = heads / groups;
  Tensor y = empty({rows, heads, queries, value_width},
                   {queries * heads * value_width, value_width, heads * value_width, 1}, aoti_torch_dtype_float32());
  float* to = static_cast<float*>(y.data_ptr());
  const Strided qs(q), ks(k), vs(v);
  const float* masked = nullptr;
  int64_t mask_row = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  if (mask) {
    expect(*mask, 4);
    masked = static_cast<const float*>(mask->data_ptr());
    mask_row = step(*mask, 0, rows);
    mask_head = step(*mask, 1, heads);
    mask_query = step(*mask, 2, queries);
    mask_key = step(*mask, 3, keys);
  }
  const int64_t all = share * queries;
  const int64_t work = std::max<int64_t>(1, all * keys * width);
  torch::stable::parallel_for(0, rows * groups, std::max<int64_t>(1, (1 << 15) / work), [&](int64_t first, int64_t last) {
    std::vector<float> scores(MOST * keys);
    std::vector<char> seen(keys);
    const float *from[MOST], *hidden[MOST];
    float* out[MOST];
    for (int64_t pair = first; pair < last; ++pair) {
      const int64_t b = pair / groups, g = pair % groups;
      for (int64_t start = 0; start < all; start += MOST) {
        const int64_t count = std::min<int64_t>(MOST, all - start);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t h = g * share + (start + r) / queries, one = (start + r) % queries;
          from[r] = qs.data + b * qs.row + h * qs.head + one * qs.token;
          hidden[r] = mask ? masked + b * mask_row + h * mask_head + one * mask_query : nullptr;
          out[r] = to + ((b * queries + one) * heads + h) * value_width;
        }
        std::fill(seen.begin(), seen.end(), mask ? 0 : 1);
        if (mask)
          for (int64_t r = 0; r < count; ++r)
            for (int64_t at = 0; at < keys; ++at) seen[at] |= hidden[r][at * mask_key] != NOTHING;
        attend_some<MOST>(count, from, hidden, mask_key, ks.data + b * ks.row + g * ks.head, ks.token, ks.number,
                          vs.data + b * vs.row + g * vs.head, vs.token, keys, width, value_width,
                          static_cast<float>(scale), seen.data(), scores.data(), out);
      }
    }
  });
  return y;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("few_rows(Tensor x, Tensor stored, Tensor? bias, int out) -> Tensor");
  library.def("few_queries(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("few_rows", TORCH_BOX(&few_rows));
  library.impl("few_queries", TORCH_BOX(&few_queries));
}
