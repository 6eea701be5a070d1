// Greedy decoding: runs several compiled steps without Python between them.
//
// Shapes: S steps at most, N integers that a step takes, V vocabulary.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "log_sum_exp.h"

using torch::stable::Tensor;

// From libpython, which the process has loaded; a compiled step releases and reacquires the GIL.
extern "C" int PyGILState_Ensure(void);
extern "C" void PyGILState_Release(int);

namespace {

// A compiled step: consumes its inputs and returns new handles of its outputs.
using Entry = void (*)(AtenTensorHandle* inputs, AtenTensorHandle* outputs);

struct GilLock {
  int state = PyGILState_Ensure();
  ~GilLock() { PyGILState_Release(state); }
};

// An integer as a tensor of zero or two dimensions.
AtenTensorHandle integer_tensor(int64_t value, int64_t dimensions) {
  const int64_t ones[] = {1, 1};
  AtenTensorHandle made;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dimensions, ones, ones, aoti_torch_dtype_int64(),
                                                  aoti_torch_device_type_cpu(), 0, &made));
  void* data;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(made, &data));
  *static_cast<int64_t*>(data) = value;
  return made;
}

bool same_layout(const Tensor& one, const Tensor& other) {
  bool same = one.dim() == other.dim();
  for (int64_t n = 0; same && n < one.dim(); ++n)
    same = one.size(n) == other.size(n) && one.stride(n) == other.stride(n);
  return same;
}

struct Choice {
  double log_probability;
  int64_t token;
};

// The most probable token of a row that is not suppressed; ties are won by the lower id.
Choice argmax(const float* row, int64_t size, const Tensor& suppressed_ids, std::vector<float>& block_max) {
  const int64_t* suppressed = static_cast<const int64_t*>(suppressed_ids.data_ptr());
  const int64_t count = suppressed_ids.size(0);
  const double log_sum = log_sum_exp(row, size, block_max.data());
  float best = NEG_INF;
  int64_t token = 0;
  if (std::isnan(log_sum)) {  // not overlooked: the first token that is not suppressed, with NaN
    while (token + 1 < size && is_suppressed(suppressed, count, token)) ++token;
    return {log_sum, token};
  }
  for (int64_t block = 0; block * BLOCK < size; ++block) {
    if (!(block_max[block] > best)) continue;
    for (int64_t at = block * BLOCK; at < std::min(size, (block + 1) * BLOCK); ++at)
      if (row[at] > best && !is_suppressed(suppressed, count, at)) {
        best = row[at];
        token = at;
      }
  }
  return {best - log_sum, token};
}

// entry: the address of a step; inputs: its tensors, any in place of those that differ at every step; ids: index of the
// input with the token; integer_inputs: indices of the inputs that are integers; integers [S, N]: their values at each
// step; feedback: for each output, the index of the input that it becomes, or -1; logits: index of the output with the
// logits. Stops after the end token, or if all tokens are suppressed, or if the layout of a fed-back tensor changes.
// Returns log-probabilities and tokens of the steps taken, and the outputs of the last one.
std::tuple<Tensor, Tensor, std::vector<Tensor>> multi_step_decode(
    int64_t entry, std::vector<Tensor> inputs, int64_t ids, int64_t token, std::vector<int64_t> integer_inputs,
    Tensor integers, std::vector<int64_t> feedback, int64_t logits, Tensor suppressed_ids, int64_t end) {
  const auto run = reinterpret_cast<Entry>(entry);
  const int64_t steps = integers.size(0), count = integers.size(1);
  STD_TORCH_CHECK(integers.is_contiguous() && count == static_cast<int64_t>(integer_inputs.size()) && steps > 0,
                  "wanted: ", integer_inputs.size(), " integers for each step, and there are ", count);
  const int64_t* integer_data = static_cast<const int64_t*>(integers.data_ptr());
  std::vector<Choice> chosen;
  std::vector<Tensor> outputs;
  std::vector<float> block_max;
  std::vector<AtenTensorHandle> in(inputs.size()), out(feedback.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t n = 0; n < inputs.size(); ++n) in[n] = nullptr;
    for (int64_t n = 0; n < count; ++n) in[integer_inputs[n]] = integer_tensor(integer_data[step * count + n], 0);
    in[ids] = integer_tensor(token, 2);
    for (size_t n = 0; n < inputs.size(); ++n)
      if (!in[n]) TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(inputs[n].get(), &in[n]));
    {
      const GilLock lock;
      std::fill(out.begin(), out.end(), nullptr);
      run(in.data(), out.data());
    }
    outputs.clear();
    for (size_t n = 0; n < out.size(); ++n) {
      STD_TORCH_CHECK(out[n], "a compiled step failed");
      // A tensor that is returned twice is one handle.
      const size_t first = std::find(out.begin(), out.begin() + n, out[n]) - out.begin();
      first < n ? outputs.push_back(outputs[first]) : outputs.push_back(Tensor(out[n]));
    }
    bool same = true;
    for (size_t n = 0; n < feedback.size(); ++n)
      if (feedback[n] >= 0) {
        same &= same_layout(inputs[feedback[n]], outputs[n]);
        inputs[feedback[n]] = outputs[n];
      }
    const Tensor row = torch::stable::contiguous(outputs[logits]);
    const int64_t size = row.size(row.dim() - 1);
    STD_TORCH_CHECK(row.numel() == size && row.scalar_type() == torch::headeronly::ScalarType::Float,
                    "wanted: the logits of one token");
    block_max.resize((size + BLOCK - 1) / BLOCK);
    chosen.push_back(argmax(static_cast<const float*>(row.data_ptr()), size, suppressed_ids, block_max));
    token = chosen.back().token;
    if (token == end || chosen.back().log_probability == NEG_INF || !same) break;
  }
  const int64_t sizes[] = {static_cast<int64_t>(chosen.size())}, strides[] = {1};
  AtenTensorHandle logs, tokens;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, aoti_torch_dtype_float64(),
                                                  aoti_torch_device_type_cpu(), 0, &logs));
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, aoti_torch_dtype_int64(),
                                                  aoti_torch_device_type_cpu(), 0, &tokens));
  Tensor log_T(logs), token_T(tokens);
  for (size_t n = 0; n < chosen.size(); ++n) {
    static_cast<double*>(log_T.data_ptr())[n] = chosen[n].log_probability;
    static_cast<int64_t*>(token_T.data_ptr())[n] = chosen[n].token;
  }
  return {log_T, token_T, outputs};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kit, library) {
  library.def(
      "multi_step_decode(int entry, Tensor[] inputs, int ids, int token, int[] integer_inputs, Tensor integers, "
      "int[] feedback, int logits, Tensor suppressed_ids, int end) -> (Tensor, Tensor, Tensor[])");
}

STABLE_TORCH_LIBRARY_IMPL(kit, CPU, library) { library.impl("multi_step_decode", TORCH_BOX(&multi_step_decode)); }
