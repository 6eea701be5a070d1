// A product of two float32 matrices, as a training step has it: a few hundred rows and more, matrices of any strides.
//
// After Goto and van de Geijn (2008). A piece of the right matrix, copied into panels of 64 columns, stays in a core's
// second cache; up to six rows of the left one stay in its first; sums of 6 x 64 stay in registers.
//
// Shapes: R rows and C columns of the product, K numbers that each is a sum of.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <tuple>

#include "lanes.h"
#include "tensors.h"
#include "turning.h"

namespace {

constexpr int MOST = 6;  // rows that are added up at a time
constexpr int VECTORS = REGISTERS / 8;  // of one row that are added up at a time
constexpr int PANEL = VECTORS * LANES;  // columns that lie side by side in a copied piece
constexpr int GROUPS = 8;  // of MOST rows, copied at a time
constexpr int STRIP = GROUPS * MOST;
constexpr int SLOT = 8;  // places for MOST copied numbers: so many are copied by one instruction
constexpr int64_t LINE = 16;  // numbers that a cache fetches at a time
constexpr int64_t COPYING = 16;  // numbers multiplied while one is copied
constexpr int64_t PAGE = 1 << 21;

// How much of the right matrix is copied at a time: 512 KB, or 768 KB where rows are copied too, once for all columns.
struct Piece {
  int64_t depth, width;
};
constexpr Piece ROWS_AS_THEY_LIE{512, 256}, ROWS_COPIED{384, 512};


// Memory of a thread that is kept from product to product, in large pages where the system has such.
class Room {
 public:
  float* of(int64_t numbers) {
    const int64_t wanted = (numbers * 4 + PAGE - 1) / PAGE * PAGE;
    if (wanted > size_) {
      std::free(start_);
      start_ = std::aligned_alloc(PAGE, wanted);
      size_ = start_ ? wanted : 0;
      if (!start_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
      madvise(start_, wanted, MADV_HUGEPAGE);
#endif
    }
    return static_cast<float*>(start_);
  }
  ~Room() { std::free(start_); }

 private:
  void* start_ = nullptr;
  int64_t size_ = 0;
};

struct Matrix {
  const float* data;
  int64_t row, column;  // numbers from one to the next

  Matrix(const float* data, int64_t row, int64_t column) : data(data), row(row), column(column) {}
  explicit Matrix(const Tensor& x)
      : data(static_cast<const float*>(x.data_ptr())), row(x.stride(0)), column(x.stride(1)) {}
  const float* at(int64_t r, int64_t c) const { return data + r * row + c * column; }
};

// Up to STRIP rows of a matrix whose columns lie side by side, MOST by MOST: [groups, K, SLOT]; their sums are made too.
void copy_rows(const Matrix& a, int64_t first, int64_t rows, int64_t k_first, int64_t depth, float* to, float* sums) {
  float sum[STRIP] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = a.at(first, k_first + k);
    float* line = to + k * SLOT;
    if (rows == STRIP) {
      // All but the last group with a few numbers of the next one.
      for (int g = 0; g < GROUPS - 1; ++g) std::memcpy(line + g * depth * SLOT, from + g * MOST, SLOT * sizeof(float));
      std::memcpy(line + (GROUPS - 1) * depth * SLOT, from + STRIP - MOST, MOST * sizeof(float));
      if (sums)
        for (int r = 0; r < STRIP; ++r) sum[r] += from[r];
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        line[r / MOST * depth * SLOT + r % MOST] = from[r];
        sum[r] += from[r];
      }
    }
  }
  if (sums)
    for (int64_t r = 0; r < rows; ++r) sums[r] = (k_first ? sums[r] : 0.0f) + sum[r];
}

// Columns [first, first + columns) of a matrix, K of its rows, as one panel [K, PANEL]; what is missing is zero.
void copy_panel(const Matrix& b, int64_t k_first, int64_t depth, int64_t first, int64_t columns, float* to) {
  if (columns < PANEL) std::memset(to, 0, depth * PANEL * sizeof(float));
  if (b.column == 1 && columns == PANEL) {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = b.at(k_first + k, first);
      for (int v = 0; v < VECTORS; ++v) store(to + k * PANEL + v * LANES, load(from + v * LANES));
    }
  } else if (b.column == 1) {
    for (int64_t k = 0; k < depth; ++k) std::memcpy(to + k * PANEL, b.at(k_first + k, first), columns * sizeof(float));
  } else {
    for (int64_t k = 0; k < depth; k += LANES)
      for (int64_t c = 0; c < columns; c += LANES) {
        const int64_t count = std::min<int64_t>(LANES, columns - c), numbers = std::min<int64_t>(LANES, depth - k);
        turn(b.at(k_first + k, first + c), b.column, count, numbers, to + k * PANEL + c, PANEL);
      }
  }
}

// ROWS rows, whose numbers lie side by side or SLOT apart, times a panel: [ROWS, PANEL], added to what is there, or to a
// bias.
template <int ROWS, bool COPIED>
inline void multiply_panel(const float* a, int64_t a_row, const float* panel, int64_t depth, float* y, int64_t y_row,
                           bool more, const float* bias) {
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) __builtin_prefetch(y + r * y_row + v * LANES, 1);
  Lanes sum[ROWS][VECTORS] = {};
  for (int64_t k = 0; k < depth; ++k, panel += PANEL) {
    Lanes column[VECTORS];
    for (int v = 0; v < VECTORS; ++v) column[v] = load(panel + v * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const float number = COPIED ? a[k * SLOT + r] : a[r * a_row + k];
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += number * column[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      float* to = y + r * y_row + v * LANES;
      const Lanes before = more ? load(to) : bias ? load(bias + v * LANES) : Lanes{};
      store(to, before + sum[r][v]);
    }
}

template <int ROWS, bool COPIED>
void multiply_rows(int64_t rows, const float* a, int64_t a_row, const float* panel, int64_t depth, float* y,
                   int64_t y_row, bool more, const float* bias) {
  if constexpr (ROWS > 0) {
    if (rows < ROWS) return multiply_rows<ROWS - 1, COPIED>(rows, a, a_row, panel, depth, y, y_row, more, bias);
    multiply_panel<ROWS, COPIED>(a, a_row, panel, depth, y, y_row, more, bias);
  }
}

struct Product {
  Matrix a, b;
  const float* bias;
  float *y, *sums;  // sums of the rows of a, where they are wanted
  int64_t rows, sum, columns;

  // Rows [r_first, r_last) and columns [c_first, c_last) of the product.
  template <bool COPIED>
  void make(int64_t r_first, int64_t r_last, int64_t c_first, int64_t c_last) const {
    constexpr Piece piece = COPIED ? ROWS_COPIED : ROWS_AS_THEY_LIE;
    thread_local Room room;
    float* panels = room.of(piece.width * piece.depth + GROUPS * SLOT * piece.depth);
    float* lines = panels + piece.width * piece.depth;
    const int64_t steps = (sum + piece.depth - 1) / piece.depth;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t k_first = sum * step / steps, depth = sum * (step + 1) / steps - k_first;
      for (int64_t first = c_first; first < c_last; first += piece.width) {
        const int64_t last = std::min(c_last, first + piece.width);
        for (int64_t c = first; c < last; c += PANEL)
          copy_panel(b, k_first, depth, c, std::min<int64_t>(PANEL, last - c), panels + (c - first) * depth);
        for (int64_t r = r_first; r < r_last; r += MOST) {
          const int64_t count = std::min<int64_t>(MOST, r_last - r), group = (r - r_first) / MOST % GROUPS;
          const float* from = COPIED ? lines + group * SLOT * depth : a.at(r, k_first);
          if (COPIED && group == 0) {
            float* to = first || !sums ? nullptr : sums + r;
            copy_rows(a, r, std::min<int64_t>(STRIP, r_last - r), k_first, depth, lines, to);
          }
          if (COPIED)
            fetch(r - group * MOST + STRIP, r_last, k_first + depth * group / GROUPS,
                  k_first + depth * (group + 1) / GROUPS);
          for (int64_t c = first; c < last; c += PANEL) {
            const float* panel = panels + (c - first) * depth;
            if (c + PANEL <= last)
              multiply_rows<MOST, COPIED>(count, from, a.row, panel, depth, y + r * columns + c, columns, step,
                                          bias ? bias + c : nullptr);
            else
              make_edge<COPIED>(r, count, c, last - c, from, panel, depth, step);
          }
        }
      }
    }
  }

  // The last columns, which do not fill a panel.
  template <bool COPIED>
  void make_edge(int64_t r, int64_t count, int64_t c, int64_t width, const float* from, const float* panel,
                 int64_t depth, bool more) const {
    float whole[MOST * PANEL], whole_bias[PANEL];
    float* place = y + r * columns + c;
    if (bias) std::memcpy(whole_bias, bias + c, width * sizeof(float));
    for (int64_t n = 0; more && n < count; ++n)
      std::memcpy(whole + n * PANEL, place + n * columns, width * sizeof(float));
    multiply_rows<MOST, COPIED>(count, from, a.row, panel, depth, whole, PANEL, more, bias ? whole_bias : nullptr);
    for (int64_t n = 0; n < count; ++n) std::memcpy(place + n * columns, whole + n * PANEL, width * sizeof(float));
  }

  // Some of the next strip, while the one before it is multiplied: it comes from far, which no processor foresees.
  void fetch(int64_t first, int64_t last, int64_t k_first, int64_t k_last) const {
    for (int64_t k = k_first; k < k_last; ++k)
      for (int64_t r = first; r < std::min(last, first + STRIP); r += LINE) __builtin_prefetch(a.at(r, k), 0, 2);
  }

  // One part for each thread, of all rows or of all columns or of some of each: so that little is copied twice.
  void make_all() const {
    const int64_t threads = torch::stable::get_num_threads(), panels = (columns + PANEL - 1) / PANEL;
    const bool copied = sums || a.column != 1;
    int64_t row_parts = threads, least = INT64_MAX;
    for (int64_t parts = 1; parts <= threads; ++parts) {
      if (threads % parts) continue;
      const int64_t most_rows = (rows + parts - 1) / parts, others = threads / parts,
                    most_columns = (panels + others - 1) / others * PANEL;
      const int64_t cost = most_rows * most_columns + COPYING * (most_columns + (copied ? most_rows : 0));
      if (cost < least) least = cost, row_parts = parts;
    }
    const int64_t column_parts = threads / row_parts;
    torch::stable::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t r = part % row_parts, c = part / row_parts;
        const int64_t r_first = rows * r / row_parts, r_last = rows * (r + 1) / row_parts,
                      c_first = panels * c / column_parts * PANEL,
                      c_last = std::min(columns, panels * (c + 1) / column_parts * PANEL);
        copied ? make<true>(r_first, r_last, c_first, c_last) : make<false>(r_first, r_last, c_first, c_last);
      }
    });
  }
};

void expect(const Tensor& x, int64_t dimensions) {
  STD_TORCH_CHECK(x.dim() == dimensions && x.scalar_type() == torch::headeronly::ScalarType::Float,
                  "wanted: float32 in ", dimensions, " dimensions");
  bool beside = false;
  for (int64_t n = 0; n < dimensions; ++n) beside |= x.stride(n) == 1 || x.size(n) == 1;
  STD_TORCH_CHECK(beside, "wanted: numbers side by side");
}

void expect_product(const Tensor& a, const Tensor& b, int64_t summed) {
  expect(a, 2);
  expect(b, 2);
  STD_TORCH_CHECK(a.size(summed) == b.size(0) && b.size(0) > 0, "no product: ", a.size(summed), " and ", b.size(0),
                  " numbers to sum");
}

// a [R, K] times b [K, C], bias [C] added: [R, C]. Of each matrix, numbers of a row or of a column lie side by side.
Tensor product(Tensor a, Tensor b, std::optional<Tensor> bias) {
  expect_product(a, b, 1);
  if (bias) expect(*bias, 1);
  STD_TORCH_CHECK(!bias || bias->size(0) == b.size(1), "a bias of another size than ", b.size(1));
  Tensor y = empty({a.size(0), b.size(1)}, {b.size(1), 1});
  const float* added = bias ? numbers_of(*bias) : nullptr;
  Product{Matrix(a), Matrix(b), added, numbers_of(y), nullptr, a.size(0), a.size(1), b.size(1)}.make_all();
  return y;
}

// a [K, R], turned, times b [K, C]: [R, C]; and the sum of a over K: [R]. Numbers of a's rows lie side by side.
std::tuple<Tensor, Tensor> turned_product(Tensor a, Tensor b) {
  expect_product(a, b, 0);
  STD_TORCH_CHECK(a.stride(1) == 1 || a.size(1) == 1, "wanted: numbers of a row side by side");
  Tensor y = empty({a.size(1), b.size(1)}, {b.size(1), 1}), sums = empty({a.size(1)}, {1});
  const Matrix turned{numbers_of(a), 1, a.stride(0)};
  Product{turned, Matrix(b), nullptr, numbers_of(y), numbers_of(sums), a.size(1), a.size(0), b.size(1)}.make_all();
  return {y, sums};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def("product(Tensor a, Tensor b, Tensor? bias) -> Tensor");
  library.def("turned_product(Tensor a, Tensor b) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) {
  library.impl("product", TORCH_BOX(&product));
  library.impl("turned_product", TORCH_BOX(&turned_product));
}
