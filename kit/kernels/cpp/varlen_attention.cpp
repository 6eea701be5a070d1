// Varlen (packed) softmax attention, forward and backward, without padding or transposes.
//
// A sequence is some rows of a matrix, one per token, whose columns are the heads side by side. Attention weights are saved
// for backward, which short sequences can afford.
//
// Shapes: H heads, G key-value heads; Q queries and K keys of a sequence, E head_dim.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "simd.h"
#include "tensors.h"
#include "transpose.h"

namespace {

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();
constexpr int MAX_VECTORS = 4;  // SIMD vectors per row of a register tile

// Rows of a register tile: as many sums as there are registers for, less a few for operands.
constexpr int tile_rows(int vectors) { return (REGISTERS - 2) / vectors - (vectors > 1); }

// A left operand, of any strides.
struct Operand {
  const float* data;
  int64_t row, column;  // strides
};

// A row-major matrix.
struct RowMajor {
  float* data;
  int64_t row;  // stride
};

inline int64_t round_up(int64_t count) { return (count + SIMD_WIDTH - 1) / SIMD_WIDTH * SIMD_WIDTH; }

template <int ROWS, int VECTORS>
inline void multiply_tile(const Operand& a, const float* b, int64_t b_row, int64_t depth, float* y, int64_t y_row,
                          bool accumulate) {
  Vec sum[ROWS][VECTORS] = {};
  for (int64_t k = 0; k < depth; ++k, b += b_row) {
    Vec column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(b + v * SIMD_WIDTH);
    for (int r = 0; r < ROWS; ++r) {
      const float value = a.data[r * a.row + k * a.column];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += value * column[v];
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      float* to = y + r * y_row + v * SIMD_WIDTH;
      store(to, accumulate ? load(to) + sum[r][v] : sum[r][v]);
    }
}

template <int ROWS, int VECTORS>
void multiply_rows(int64_t rows, const Operand& a, const float* b, int64_t b_row, int64_t depth, float* y, int64_t y_row,
                   bool accumulate) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_rows<ROWS - 1, VECTORS>(rows, a, b, b_row, depth, y, y_row, accumulate);
    multiply_tile<ROWS, VECTORS>(a, b, b_row, depth, y, y_row, accumulate);
  }
}

template <int VECTORS>
void multiply_columns(const Operand& a, const float* b, int64_t b_row, int64_t rows, int64_t depth, float* y,
                      int64_t y_row, bool accumulate) {
  constexpr int MR = tile_rows(VECTORS);
  const int64_t tiles = (rows + MR - 1) / MR;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = rows * t / tiles, count = rows * (t + 1) / tiles - first;
    multiply_rows<MR, VECTORS>(count, {a.data + first * a.row, a.row, a.column}, b, b_row, depth, y + first * y_row,
                                 y_row, accumulate);
  }
}

// Small GEMM: a [rows, depth] @ b [depth, columns], rows of b padded to SIMD_WIDTH; written to y, or added to it.
void gemm(const Operand& a, const RowMajor& b, int64_t rows, int64_t depth, int64_t columns, const RowMajor& y,
              bool accumulate = false) {
  int64_t c = 0;
  for (; c + MAX_VECTORS * SIMD_WIDTH <= columns; c += MAX_VECTORS * SIMD_WIDTH)
    multiply_columns<MAX_VECTORS>(a, b.data + c, b.row, rows, depth, y.data + c, y.row, accumulate);
  const float* tail = b.data + c;
  switch ((columns - c + SIMD_WIDTH - 1) / SIMD_WIDTH) {
    case 1: return multiply_columns<1>(a, tail, b.row, rows, depth, y.data + c, y.row, accumulate);
    case 2: return multiply_columns<2>(a, tail, b.row, rows, depth, y.data + c, y.row, accumulate);
    case 3: return multiply_columns<3>(a, tail, b.row, rows, depth, y.data + c, y.row, accumulate);
  }
}

// Scaled, length-masked softmax over one row [K padded], in place: keys from `visible` on get zero.
void masked_softmax(float* scores, int64_t visible, int64_t padded, float scale) {
  Vec lane, max_score = Vec{} + NEG_INF;
  for (int n = 0; n < SIMD_WIDTH; ++n) lane[n] = static_cast<float>(n);
  for (int64_t at = 0; at < padded; at += SIMD_WIDTH) {
    const Vec score = lane + static_cast<float>(at) < static_cast<float>(visible) ? load(scores + at) * scale
                                                                                : Vec{} + NEG_INF;
    store(scores + at, score);
    max_score = max(score, max_score);
  }
  const float greatest = horizontal_max(max_score);
  Vec sum = {};
  for (int64_t at = 0; at < padded; at += SIMD_WIDTH) {
    const Vec score = load(scores + at), weight = score == NEG_INF ? Vec{} : exp_nonpositive(score - greatest);
    store(scores + at, weight);
    sum += weight;
  }
  const float normalizer = 1.0f / horizontal_sum(sum);
  for (int64_t at = 0; at < padded; at += SIMD_WIDTH) store(scores + at, load(scores + at) * normalizer);
}

// Softmax backward over one row, in place: gradients of weights to those of unscaled scores.
void softmax_backward(float* gradients, const float* weights, int64_t padded, float scale) {
  Vec sum = {};
  for (int64_t at = 0; at < padded; at += SIMD_WIDTH) sum += load(gradients + at) * load(weights + at);
  const float mean = horizontal_sum(sum);
  for (int64_t at = 0; at < padded; at += SIMD_WIDTH)
    store(gradients + at, load(weights + at) * (load(gradients + at) - mean) * scale);
}

// Packed tokens of queries or of keys: a matrix with cu_seqlens.
struct PackedTokens {
  float* data;
  int64_t row;  // stride from token to token
  const int64_t* cu_seqlens;

  PackedTokens(const Tensor& x, const Tensor& cu_seqlens)
      : data(float_data(x)), row(x.stride(0)), cu_seqlens(static_cast<const int64_t*>(cu_seqlens.data_ptr())) {}
  int64_t count(int64_t sequence) const { return cu_seqlens[sequence + 1] - cu_seqlens[sequence]; }
  RowMajor at(int64_t sequence, int64_t column) const { return {data + cu_seqlens[sequence] * row + column, row}; }
  Operand operand(int64_t sequence, int64_t column) const { return {at(sequence, column).data, row, 1}; }
};

struct VarlenAttention {
  int64_t heads, kv_heads, width, sequences;
  PackedTokens queries, keys;  // of the latter, values follow keys
  float scale;
  bool causal;
  std::vector<int64_t> weight_offsets = {0};  // of each sequence; per head, rows padded to SIMD_WIDTH
  int64_t longest = 0;  // number of keys, padded

  VarlenAttention(const Tensor& q, const Tensor& kv, const Tensor& q_cu_seqlens, const Tensor& k_cu_seqlens, int64_t heads,
                  int64_t kv_heads, double scale, bool causal)
      : heads(heads), kv_heads(kv_heads), width(q.size(1) / heads), sequences(q_cu_seqlens.size(0) - 1), queries(q, q_cu_seqlens),
        keys(kv, k_cu_seqlens), scale(static_cast<float>(scale)), causal(causal) {
    for (int64_t sequence = 0; sequence < sequences; ++sequence) {
      weight_offsets.push_back(weight_offsets.back() + heads * queries.count(sequence) * round_up(keys.count(sequence)));
      longest = std::max(longest, round_up(keys.count(sequence)));
    }
  }

  // Keys or values of one head, transposed: [E, K padded].
  RowMajor transposed(const RowMajor& rows, int64_t count, float* to) const {
    const int64_t padded = round_up(count);
    for (int64_t k = 0; k < count; k += SIMD_WIDTH)
      for (int64_t e = 0; e < width; e += SIMD_WIDTH)
        transpose_tile(rows.data + k * rows.row + e, rows.row, std::min<int64_t>(SIMD_WIDTH, count - k),
                       to + e * padded + k, padded);
    return {to, padded};
  }

  // Calls an action with each sequence and key-value head, and buffers for a transposed head and for scores [Q, K].
  template <typename Action>
  void for_each(const Action& action) const {
    int64_t most_queries = 0;
    for (int64_t sequence = 0; sequence < sequences; ++sequence)
      most_queries = std::max(most_queries, queries.count(sequence));
    torch::stable::parallel_for(0, sequences * kv_heads, 1, [&](int64_t first, int64_t last) {
      std::vector<float> head(width * longest), scores(most_queries * longest);
      for (int64_t pair = first; pair < last; ++pair) action(pair / kv_heads, pair % kv_heads, head.data(), scores.data());
    });
  }

  void forward(float* weights, const PackedTokens& out) const {
    for_each([&](int64_t sequence, int64_t kv_head, float* buffer, float*) {
      const int64_t q = queries.count(sequence), k = keys.count(sequence), padded = round_up(k),
                    heads_per_kv_head = heads / kv_heads;
      const RowMajor keys_EK = transposed(keys.at(sequence, kv_head * width), k, buffer);
      for (int64_t head = kv_head * heads_per_kv_head; head < (kv_head + 1) * heads_per_kv_head; ++head) {
        const RowMajor own{weights + weight_offsets[sequence] + head * q * padded, padded};
        gemm(queries.operand(sequence, head * width), keys_EK, q, width, padded, own);
        for (int64_t query = 0; query < q; ++query)
          masked_softmax(own.data + query * padded, causal ? query + 1 : k, padded, scale);
        gemm({own.data, padded, 1}, keys.at(sequence, (kv_heads + kv_head) * width), q, k, width,
             out.at(sequence, head * width));
      }
    });
  }

  void backward(const float* weights, const PackedTokens& d_out, const PackedTokens& d_queries, const PackedTokens& d_keys) const {
    for_each([&](int64_t sequence, int64_t kv_head, float* buffer, float* scores) {
      const int64_t q = queries.count(sequence), k = keys.count(sequence), padded = round_up(k),
                    heads_per_kv_head = heads / kv_heads;
      const int64_t key = kv_head * width, value = (kv_heads + kv_head) * width;
      const RowMajor values_EK = transposed(keys.at(sequence, value), k, buffer), d_scores{scores, padded};
      for (int64_t head = kv_head * heads_per_kv_head; head < (kv_head + 1) * heads_per_kv_head; ++head) {
        const float* own = weights + weight_offsets[sequence] + head * q * padded;
        const bool accumulate = head > kv_head * heads_per_kv_head;
        gemm({own, 1, padded}, d_out.at(sequence, head * width), k, q, width, d_keys.at(sequence, value), accumulate);
        gemm(d_out.operand(sequence, head * width), values_EK, q, width, padded, d_scores);
        for (int64_t query = 0; query < q; ++query)
          softmax_backward(scores + query * padded, own + query * padded, padded, scale);
        gemm({scores, padded, 1}, keys.at(sequence, key), q, k, width, d_queries.at(sequence, head * width));
        gemm({scores, 1, padded}, queries.at(sequence, head * width), k, q, width, d_keys.at(sequence, key), accumulate);
      }
    });
  }
};

void expect_cu_seqlens(const Tensor& cu_seqlens, int64_t tokens) {
  STD_TORCH_CHECK(cu_seqlens.dim() == 1 && cu_seqlens.size(0) > 0 && cu_seqlens.is_contiguous() &&
                      cu_seqlens.scalar_type() == torch::headeronly::ScalarType::Long,
                  "wanted: cu_seqlens, contiguous int64");
  const int64_t* at = static_cast<const int64_t*>(cu_seqlens.data_ptr());
  bool ascending = at[0] == 0;
  for (int64_t n = 1; n < cu_seqlens.size(0); ++n) ascending &= at[n - 1] <= at[n];
  STD_TORCH_CHECK(ascending && at[cu_seqlens.size(0) - 1] == tokens, "cu_seqlens do not add up to ", tokens, " tokens");
}

void expect_heads(const Tensor& x, int64_t tokens, int64_t columns) {
  STD_TORCH_CHECK(x.dim() == 2 && x.scalar_type() == torch::headeronly::ScalarType::Float && x.stride(1) == 1 &&
                      x.size(0) == tokens && x.size(1) == columns,
                  "wanted: row-major float32, ", tokens, " tokens of ", columns, " columns");
}

VarlenAttention checked_attention(const Tensor& q, const Tensor& kv, const Tensor& q_cu_seqlens, const Tensor& k_cu_seqlens,
                                  int64_t heads, int64_t kv_heads, double scale, bool causal) {
  STD_TORCH_CHECK(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, "wanted: a number of heads that key-value heads divide");
  const int64_t width = q.size(1) / heads;
  STD_TORCH_CHECK(width > 0 && width % SIMD_WIDTH == 0, "wanted: a head_dim that is a multiple of ", SIMD_WIDTH);
  expect_heads(q, q.size(0), heads * width);
  expect_heads(kv, kv.size(0), 2 * kv_heads * width);
  expect_cu_seqlens(q_cu_seqlens, q.size(0));
  expect_cu_seqlens(k_cu_seqlens, kv.size(0));
  STD_TORCH_CHECK(q_cu_seqlens.size(0) == k_cu_seqlens.size(0), "wanted: as many sequences of queries as of keys");
  return VarlenAttention(q, kv, q_cu_seqlens, k_cu_seqlens, heads, kv_heads, scale, causal);
}

// Attends from queries [tokens, H * E] to keys and values [tokens, 2 * G * E] of the same sequence, causally to those up to
// the query's own index. Returns outputs [tokens, H * E] and attention weights.
std::tuple<Tensor, Tensor> varlen_attention(Tensor q, Tensor kv, Tensor q_cu_seqlens, Tensor k_cu_seqlens, int64_t heads,
                                        int64_t kv_heads, double scale, bool causal) {
  const VarlenAttention attention = checked_attention(q, kv, q_cu_seqlens, k_cu_seqlens, heads, kv_heads, scale, causal);
  Tensor out = empty_strided({q.size(0), q.size(1)}, {q.size(1), 1}), weights = empty_strided({attention.weight_offsets.back()}, {1});
  for (int64_t sequence = 0; sequence < attention.sequences; ++sequence)
    STD_TORCH_CHECK(causal ? attention.queries.count(sequence) <= attention.keys.count(sequence)
                           : attention.keys.count(sequence) > 0 || attention.queries.count(sequence) == 0,
                    "sequence ", sequence, " has queries without keys");
  attention.forward(float_data(weights), PackedTokens(out, q_cu_seqlens));
  return {out, weights};
}

// Gradients of queries, keys and values, written to preallocated tensors.
void varlen_attention_backward(Tensor d_out, Tensor weights, Tensor q, Tensor kv, Tensor q_cu_seqlens, Tensor k_cu_seqlens, int64_t heads,
                       int64_t kv_heads, double scale, bool causal, Tensor d_q, Tensor d_kv) {
  const VarlenAttention attention = checked_attention(q, kv, q_cu_seqlens, k_cu_seqlens, heads, kv_heads, scale, causal);
  expect_heads(d_out, q.size(0), q.size(1));
  expect_heads(d_q, q.size(0), q.size(1));
  expect_heads(d_kv, kv.size(0), kv.size(1));
  STD_TORCH_CHECK(weights.is_contiguous() && weights.numel() == attention.weight_offsets.back(), "weights of other sequences");
  attention.backward(float_data(weights), PackedTokens(d_out, q_cu_seqlens), PackedTokens(d_q, q_cu_seqlens), PackedTokens(d_kv, k_cu_seqlens));
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def(
      "varlen_attention(Tensor q, Tensor kv, Tensor q_cu_seqlens, Tensor k_cu_seqlens, int heads, int kv_heads, float scale, "
      "bool causal) -> (Tensor, Tensor)");
  library.def(
      "varlen_attention_backward(Tensor d_out, Tensor weights, Tensor q, Tensor kv, Tensor q_cu_seqlens, Tensor k_cu_seqlens, "
      "int heads, int kv_heads, float scale, bool causal, Tensor(a!) d_q, Tensor(b!) d_kv) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("varlen_attention", TORCH_BOX(&varlen_attention));
  library.impl("varlen_attention_backward", TORCH_BOX(&varlen_attention_backward));
}
