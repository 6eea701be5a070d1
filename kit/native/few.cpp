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
#include <cstdio>
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

// A tensor of float32 as it lies in memory; whoever has the handle keeps it.
struct Lying {
  float* data;
  int64_t dimensions;
  int64_t *sizes, *strides;

  explicit Lying(AtenTensorHandle x, int64_t wanted) {
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

  // Whether the numbers of a row lie side by side.
  bool in_rows() const { return strides[dimensions - 1] == 1; }

  bool without_gaps() const {
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

// The same tensor, the numbers of a row side by side.
Tensor in_rows(const Tensor& x) { return x.stride(x.dim() - 1) == 1 ? x : torch::stable::contiguous(x); }

// x [R, I] times a matrix stored as [N, I, 64], bias added: [R, O]; all of them in rows.
AtenTensorHandle multiply(const Lying& x, const Lying& stored, const Lying* bias, int64_t out) {
  const int64_t rows = x.sizes[0], in = x.sizes[1], blocks = stored.sizes[0];
  STD_TORCH_CHECK(stored.sizes[1] == in && stored.sizes[2] == BLOCK && blocks == (out + BLOCK - 1) / BLOCK &&
                      stored.without_gaps() && (!bias || bias->sizes[0] == out),
                  "no product: ", in, " numbers in, ", out, " out; stored: ", stored.sizes[1], " in, ", blocks,
                  " blocks");
  const int64_t x_row = x.strides[0];
  AtenTensorHandle y = empty({rows, out}, {out, 1});
  const float *from = x.data, *matrix = stored.data, *added = bias ? bias->data : nullptr;
  float* to = Lying(y, 2).data;
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

Tensor few_rows(Tensor x, Tensor stored, std::optional<Tensor> bias, int64_t out) {
  x = in_rows(x);
  if (bias) bias = in_rows(*bias);
  std::optional<Lying> added;
  if (bias) added.emplace(bias->get(), 1);
  return Tensor(multiply(Lying(x.get(), 2), Lying(stored.get(), 3), added ? &*added : nullptr, out));
}

// From one of `size` to the next in a dimension of a mask; where it has a single one, that is for all.
int64_t step(const Lying& mask, int64_t dimension, int64_t size) {
  const int64_t own = mask.sizes[dimension];
  STD_TORCH_CHECK(own == 1 || own == size, "a mask of ", own, " for ", size);
  return own == 1 ? 0 : mask.strides[dimension];
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
// [B or 1, H or 1, Q or 1, K]. All of them in rows; keys may be in columns. What heads give lies side by side, as
// [B, Q, H, F], and is returned as [B, H, Q, F].
AtenTensorHandle attend(const Lying& q, const Lying& k, const Lying& v, const Lying* mask, double scale) {
  const int64_t rows = q.sizes[0], heads = q.sizes[1], queries = q.sizes[2], width = q.sizes[3], groups = k.sizes[1],
                keys = k.sizes[2], value_width = v.sizes[3];
  STD_TORCH_CHECK(k.sizes[0] == rows && v.sizes[0] == rows && v.sizes[1] == groups && v.sizes[2] == keys &&
                      k.sizes[3] == width && groups > 0 && heads % groups == 0,
                  "queries, keys and values do not fit together");
  const int64_t share = heads / groups;
  AtenTensorHandle y = empty({rows, heads, queries, value_width},
                             {queries * heads * value_width, value_width, heads * value_width, 1});
  float* to = Lying(y, 4).data;
  const float* masked = nullptr;
  int64_t mask_row = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  if (mask) {
    masked = mask->data;
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
          from[r] = q.data + b * q.strides[0] + h * q.strides[1] + one * q.strides[2];
          hidden[r] = mask ? masked + b * mask_row + h * mask_head + one * mask_query : nullptr;
          out[r] = to + ((b * queries + one) * heads + h) * value_width;
        }
        std::fill(seen.begin(), seen.end(), mask ? 0 : 1);
        if (mask)
          for (int64_t r = 0; r < count; ++r)
            for (int64_t at = 0; at < keys; ++at) seen[at] |= hidden[r][at * mask_key] != NOTHING;
        attend_some<MOST>(count, from, hidden, mask_key, k.data + b * k.strides[0] + g * k.strides[1], k.strides[2],
                          k.strides[3], v.data + b * v.strides[0] + g * v.strides[1], v.strides[2], keys, width,
                          value_width, static_cast<float>(scale), seen.data(), scores.data(), out);
      }
    }
  });
  return y;
}

Tensor few_queries(Tensor q, Tensor k, Tensor v, std::optional<Tensor> mask, double scale) {
  q = in_rows(q);
  v = in_rows(v);
  if (k.dim() == 4 && k.stride(2) != 1) k = in_rows(k);  // else by column
  std::optional<Lying> hidden;
  if (mask) hidden.emplace(mask->get(), 4);
  return Tensor(attend(Lying(q.get(), 4), Lying(k.get(), 4), Lying(v.get(), 4), hidden ? &*hidden : nullptr, scale));
}

AtenTensorHandle another(AtenTensorHandle x) {
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(x, &made));
  return made;
}

Tensor owned(AtenTensorHandle x) { return Tensor(another(x)); }

std::optional<Tensor> owned(const AtenTensorHandle* x) { return x ? std::optional(owned(*x)) : std::nullopt; }

// Runs what may throw on behalf of compiled code, which is told by a number.
template <typename Action>
AOTITorchError told(const Action& action) {
  try {
    action();
    return AOTI_TORCH_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return AOTI_TORCH_FAILURE;
  }
}

}  // namespace

// The same for compiled steps: torch's way from a name to an operation takes longer than a small product.
extern "C" {

AOTITorchError kit_few_rows(AtenTensorHandle x, AtenTensorHandle stored, AtenTensorHandle* bias, int64_t out,
                            AtenTensorHandle* made) {
  return told([&] {
    const Lying from(x, 2);
    std::optional<Lying> added;
    if (bias) added.emplace(*bias, 1);
    if (from.in_rows() && (!added || added->in_rows()))
      *made = multiply(from, Lying(stored, 3), added ? &*added : nullptr, out);
    else
      *made = another(few_rows(owned(x), owned(stored), owned(bias), out).get());
  });
}

AOTITorchError kit_few_queries(AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* mask,
                               double scale, AtenTensorHandle* made) {
  return told([&] {
    const Lying from(q, 4), keys(k, 4), values(v, 4);
    std::optional<Lying> hidden;
    if (mask) hidden.emplace(*mask, 4);
    if (from.in_rows() && values.in_rows() && (keys.in_rows() || keys.strides[2] == 1))
      *made = attend(from, keys, values, hidden ? &*hidden : nullptr, scale);
    else
      *made = another(few_queries(owned(q), owned(k), owned(v), owned(mask), scale).get());
  });
}

}  // extern "C"

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("few_rows(Tensor x, Tensor stored, Tensor? bias, int out) -> Tensor");
  library.def("few_queries(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("few_rows", TORCH_BOX(&few_rows));
  library.impl("few_queries", TORCH_BOX(&few_queries));
}
