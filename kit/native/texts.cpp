// Softmax attention within packed texts, and its gradients: heads are read and written where they lie.
//
// A text is some rows of a matrix, one a token, in which heads lie side by side. Weights are kept for the way back, which
// short texts can afford.
//
// Shapes: Q queries and K keys of a text, E width of a head.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "lanes.h"
#include "tensors.h"
#include "turning.h"

namespace {

constexpr float NOTHING = -std::numeric_limits<float>::infinity();
constexpr int WIDEST = 4;  // vectors of a row that are added up at a time

// Rows that are added up at a time: as many sums as there are registers for, a few being wanted for factors.
constexpr int rows_of(int vectors) { return (REGISTERS - 2) / vectors - (vectors > 1); }

struct Factor {
  const float* data;
  int64_t row, number;  // from one to the next
};

struct Place {
  float* data;
  int64_t row;
};

inline int64_t whole_lanes(int64_t numbers) { return (numbers + LANES - 1) / LANES * LANES; }

template <int ROWS, int VECTORS>
inline void multiply_tile(const Factor& a, const float* b, int64_t b_row, int64_t depth, float* y, int64_t y_row,
                          bool more) {
  Lanes sum[ROWS][VECTORS] = {};
  for (int64_t k = 0; k < depth; ++k, b += b_row) {
    Lanes column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(b + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const float number = a.data[r * a.row + k * a.number];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += number * column[v];
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      float* to = y + r * y_row + v * LANES;
      store(to, more ? load(to) + sum[r][v] : sum[r][v]);
    }
}

template <int ROWS, int VECTORS>
void multiply_rows(int64_t rows, const Factor& a, const float* b, int64_t b_row, int64_t depth, float* y, int64_t y_row,
                   bool more) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_rows<ROWS - 1, VECTORS>(rows, a, b, b_row, depth, y, y_row, more);
    multiply_tile<ROWS, VECTORS>(a, b, b_row, depth, y, y_row, more);
  }
}

template <int VECTORS>
void multiply_columns(const Factor& a, const float* b, int64_t b_row, int64_t rows, int64_t depth, float* y,
                      int64_t y_row, bool more) {
  constexpr int MOST = rows_of(VECTORS);
  const int64_t times = (rows + MOST - 1) / MOST;
  for (int64_t t = 0; t < times; ++t) {
    const int64_t first = rows * t / times, count = rows * (t + 1) / times - first;
    multiply_rows<MOST, VECTORS>(count, {a.data + first * a.row, a.row, a.number}, b, b_row, depth, y + first * y_row,
                                 y_row, more);
  }
}

// a [rows, depth] times b [depth, columns], whose rows lie in whole lanes: into y, or added to it.
void multiply(const Factor& a, const Place& b, int64_t rows, int64_t depth, int64_t columns, const Place& y,
              bool more = false) {
  int64_t c = 0;
  for (; c + WIDEST * LANES <= columns; c += WIDEST * LANES)
    multiply_columns<WIDEST>(a, b.data + c, b.row, rows, depth, y.data + c, y.row, more);
  const float* rest = b.data + c;
  switch ((columns - c + LANES - 1) / LANES) {
    case 1: return multiply_columns<1>(a, rest, b.row, rows, depth, y.data + c, y.row, more);
    case 2: return multiply_columns<2>(a, rest, b.row, rows, depth, y.data + c, y.row, more);
    case 3: return multiply_columns<3>(a, rest, b.row, rows, depth, y.data + c, y.row, more);
  }
}

// Scores of one query to the weights of the keys that it sees, which sum to one; other places become zero.
void weigh(float* scores, int64_t seen, int64_t places, float scale) {
  Lanes lane, most = Lanes{} + NOTHING;
  for (int n = 0; n < LANES; ++n) lane[n] = static_cast<float>(n);
  for (int64_t at = 0; at < places; at += LANES) {
    const Lanes score = lane + static_cast<float>(at) < static_cast<float>(seen) ? load(scores + at) * scale
                                                                                : Lanes{} + NOTHING;
    store(scores + at, score);
    most = greater(score, most);
  }
  const float greatest = most_of(most);
  Lanes sum = {};
  for (int64_t at = 0; at < places; at += LANES) {
    const Lanes score = load(scores + at), weight = score == NOTHING ? Lanes{} : exponential(score - greatest);
    store(scores + at, weight);
    sum += weight;
  }
  const float share = 1.0f / sum_of(sum);
  for (int64_t at = 0; at < places; at += LANES) store(scores + at, load(scores + at) * share);
}

// Gradients of weights to those of dot products, in their place.
void weigh_back(float* gradients, const float* weights, int64_t places, float scale) {
  Lanes sum = {};
  for (int64_t at = 0; at < places; at += LANES) sum += load(gradients + at) * load(weights + at);
  const float mean = sum_of(sum);
  for (int64_t at = 0; at < places; at += LANES)
    store(gradients + at, load(weights + at) * (load(gradients + at) - mean) * scale);
}

// Columns of the packed tokens of one side.
struct Side {
  float* data;
  int64_t row;  // numbers from one token to the next
  const int64_t* starts;  // of texts; one more, at which the last ends

  Side(const Tensor& x, const Tensor& starts)
      : data(numbers_of(x)), row(x.stride(0)), starts(static_cast<const int64_t*>(starts.data_ptr())) {}
  int64_t count(int64_t text) const { return starts[text + 1] - starts[text]; }
  Place at(int64_t text, int64_t column) const { return {data + starts[text] * row + column, row}; }
  Factor factor(int64_t text, int64_t column) const { return {at(text, column).data, row, 1}; }
};

struct Texts {
  int64_t heads, groups, width, texts;
  Side queries, keys;  // of the latter, values stand after keys
  float scale;
  bool causal;
  std::vector<int64_t> weights_of = {0};  // a text: where they begin; of one head, rows of whole lanes
  int64_t longest = 0;  // of keys, in whole lanes

  Texts(const Tensor& q, const Tensor& kv, const Tensor& q_starts, const Tensor& k_starts, int64_t heads, int64_t groups,
        double scale, bool causal)
      : heads(heads), groups(groups), width(q.size(1) / heads), texts(q_starts.size(0) - 1), queries(q, q_starts),
        keys(kv, k_starts), scale(static_cast<float>(scale)), causal(causal) {
    for (int64_t text = 0; text < texts; ++text) {
      weights_of.push_back(weights_of.back() + heads * queries.count(text) * whole_lanes(keys.count(text)));
      longest = std::max(longest, whole_lanes(keys.count(text)));
    }
  }

  // Keys or values of one head, turned: [E, whole lanes of K].
  Place turned(const Place& rows, int64_t count, float* to) const {
    const int64_t places = whole_lanes(count);
    for (int64_t k = 0; k < count; k += LANES)
      for (int64_t e = 0; e < width; e += LANES)
        turn_whole(rows.data + k * rows.row + e, rows.row, std::min<int64_t>(LANES, count - k), to + e * places + k,
                   places);
    return {to, places};
  }

  // Calls with each text and each of its groups, and memory for a turned head and for the scores of all queries.
  template <typename Action>
  void each(const Action& action) const {
    int64_t most = 0;
    for (int64_t text = 0; text < texts; ++text) most = std::max(most, queries.count(text));
    torch::stable::parallel_for(0, texts * groups, 1, [&](int64_t first, int64_t last) {
      std::vector<float> turned(width * longest), scores(most * longest);
      for (int64_t pair = first; pair < last; ++pair) action(pair / groups, pair % groups, turned.data(), scores.data());
    });
  }

  void forward(float* weights, const Side& out) const {
    each([&](int64_t text, int64_t group, float* room, float*) {
      const int64_t q = queries.count(text), k = keys.count(text), places = whole_lanes(k), share = heads / groups;
      const Place turned_keys = turned(keys.at(text, group * width), k, room);
      for (int64_t head = group * share; head < (group + 1) * share; ++head) {
        const Place own{weights + weights_of[text] + head * q * places, places};
        multiply(queries.factor(text, head * width), turned_keys, q, width, places, own);
        for (int64_t one = 0; one < q; ++one) weigh(own.data + one * places, causal ? one + 1 : k, places, scale);
        multiply({own.data, places, 1}, keys.at(text, (groups + group) * width), q, k, width,
                 out.at(text, head * width));
      }
    });
  }

  void backward(const float* weights, const Side& d_out, const Side& d_queries, const Side& d_keys) const {
    each([&](int64_t text, int64_t group, float* room, float* scores) {
      const int64_t q = queries.count(text), k = keys.count(text), places = whole_lanes(k), share = heads / groups;
      const int64_t key = group * width, value = (groups + group) * width;
      const Place turned_values = turned(keys.at(text, value), k, room), d_scores{scores, places};
      for (int64_t head = group * share; head < (group + 1) * share; ++head) {
        const float* own = weights + weights_of[text] + head * q * places;
        const bool more = head > group * share;
        multiply({own, 1, places}, d_out.at(text, head * width), k, q, width, d_keys.at(text, value), more);
        multiply(d_out.factor(text, head * width), turned_values, q, width, places, d_scores);
        for (int64_t one = 0; one < q; ++one) weigh_back(scores + one * places, own + one * places, places, scale);
        multiply({scores, places, 1}, keys.at(text, key), q, k, width, d_queries.at(text, head * width));
        multiply({scores, 1, places}, queries.at(text, head * width), k, q, width, d_keys.at(text, key), more);
      }
    });
  }
};

void expect_starts(const Tensor& starts, int64_t tokens) {
  STD_TORCH_CHECK(starts.dim() == 1 && starts.size(0) > 0 && starts.is_contiguous() &&
                      starts.scalar_type() == torch::headeronly::ScalarType::Long,
                  "wanted: where each text starts, and the number of all tokens");
  const int64_t* at = static_cast<const int64_t*>(starts.data_ptr());
  bool rising = at[0] == 0;
  for (int64_t n = 1; n < starts.size(0); ++n) rising &= at[n - 1] <= at[n];
  STD_TORCH_CHECK(rising && at[starts.size(0) - 1] == tokens, "texts do not make up ", tokens, " tokens");
}

void expect_heads(const Tensor& x, int64_t tokens, int64_t numbers) {
  STD_TORCH_CHECK(x.dim() == 2 && x.scalar_type() == torch::headeronly::ScalarType::Float && x.stride(1) == 1 &&
                      x.size(0) == tokens && x.size(1) == numbers,
                  "wanted: float32, ", tokens, " tokens of ", numbers, " numbers side by side");
}

Texts texts_of(const Tensor& q, const Tensor& kv, const Tensor& q_starts, const Tensor& k_starts, int64_t heads,
               int64_t groups, double scale, bool causal) {
  STD_TORCH_CHECK(heads > 0 && groups > 0 && heads % groups == 0, "wanted: heads in groups");
  const int64_t width = q.size(1) / heads;
  STD_TORCH_CHECK(width > 0 && width % LANES == 0, "wanted: heads as wide as a multiple of ", LANES);
  expect_heads(q, q.size(0), heads * width);
  expect_heads(kv, kv.size(0), 2 * groups * width);
  expect_starts(q_starts, q.size(0));
  expect_starts(k_starts, kv.size(0));
  STD_TORCH_CHECK(q_starts.size(0) == k_starts.size(0), "wanted: as many texts on both sides");
  return Texts(q, kv, q_starts, k_starts, heads, groups, scale, causal);
}

// Queries [tokens, H * E] to keys and values [tokens, 2 * G * E] of the same text, with «causal» to those up to the query's
// own place: what heads give [tokens, H * E], and their weights.
std::tuple<Tensor, Tensor> attend_texts(Tensor q, Tensor kv, Tensor q_starts, Tensor k_starts, int64_t heads,
                                        int64_t groups, double scale, bool causal) {
  const Texts texts = texts_of(q, kv, q_starts, k_starts, heads, groups, scale, causal);
  Tensor out = empty({q.size(0), q.size(1)}, {q.size(1), 1}), weights = empty({texts.weights_of.back()}, {1});
  for (int64_t text = 0; text < texts.texts; ++text)
    STD_TORCH_CHECK(causal ? texts.queries.count(text) <= texts.keys.count(text)
                           : texts.keys.count(text) > 0 || texts.queries.count(text) == 0,
                    "text ", text, " has queries that see nothing");
  texts.forward(numbers_of(weights), Side(out, q_starts));
  return {out, weights};
}

// The gradients, into places that were made for them.
void attend_texts_back(Tensor d_out, Tensor weights, Tensor q, Tensor kv, Tensor q_starts, Tensor k_starts, int64_t heads,
                       int64_t groups, double scale, bool causal, Tensor d_q, Tensor d_kv) {
  const Texts texts = texts_of(q, kv, q_starts, k_starts, heads, groups, scale, causal);
  expect_heads(d_out, q.size(0), q.size(1));
  expect_heads(d_q, q.size(0), q.size(1));
  expect_heads(d_kv, kv.size(0), kv.size(1));
  STD_TORCH_CHECK(weights.is_contiguous() && weights.numel() == texts.weights_of.back(), "weights of other texts");
  texts.backward(numbers_of(weights), Side(d_out, q_starts), Side(d_q, q_starts), Side(d_kv, k_starts));
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def(
      "attend_texts(Tensor q, Tensor kv, Tensor q_starts, Tensor k_starts, int heads, int groups, float scale, "
      "bool causal) -> (Tensor, Tensor)");
  library.def(
      "attend_texts_back(Tensor d_out, Tensor weights, Tensor q, Tensor kv, Tensor q_starts, Tensor k_starts, "
      "int heads, int groups, float scale, bool causal, Tensor(a!) d_q, Tensor(b!) d_kv) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("attend_texts", TORCH_BOX(&attend_texts));
  library.impl("attend_texts_back", TORCH_BOX(&attend_texts_back));
}
