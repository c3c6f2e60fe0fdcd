#ifndef TESSERA_MODELS_MODULE_H_
#define TESSERA_MODELS_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device.h"
#include "core/philox.h"
#include "core/tensor.h"

namespace tessera {

// One trainable tensor, as its owner declares it.
struct ParameterSpec {
  enum class Initialization : uint8_t { kZeros, kOnes, kNormal };

  std::string name;  // unique in its unit, e.g. "attn.c_attn.weight"
  Shape shape;       // zero extents are allowed
  Initialization initialization = Initialization::kZeros;
  float deviation = 0;  // of kNormal, mean 0
  bool decay = false;   // whether weight decay applies
};

// Parameters that are gathered and released together: an embedding, a block.
struct UnitSpec {
  std::string name;  // unique in its model, e.g. "block.3"
  std::vector<ParameterSpec> parameters;
};

struct ParameterUse {
  int unit = 0;
  int parameter = 0;  // index in the unit
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

inline int64_t BytesOf(const TensorSpec& spec) {
  return ElementsOf(spec.shape) * SizeOf(spec.dtype);
}

// What a module needs beside its input and parameters, in bytes and shapes, for
// one micro-batch of a given number of sequences.
struct Footprint {
  TensorSpec output;              // no elements for a module that ends in the loss
  std::vector<TensorSpec> saved;  // written by Forward, read by Backward; none of the last call
  int64_t forward_workspace = 0;  // bytes, contents undefined, 64-aligned
  int64_t backward_workspace = 0;
};

// What every call of a micro-batch sees.
struct MicroBatch {
  absl::Span<const Tensor> fields;  // as Model::fields() declares them
  int64_t index = 0;                // its number m in the global batch
  int64_t step = 0;
  uint64_t seed = 0;
  bool training = false;      // dropout is off, and `saved` absent, when false
  double gradient_scale = 0;  // 1 / target tokens of the global batch

  RandomKey Dropout(uint32_t stream) const {
    return {seed, RandomPurpose::kDropout, stream, static_cast<uint32_t>(index),
            static_cast<uint32_t>(step)};
  }
};

struct ForwardArguments {
  Lane& lane;
  const MicroBatch& micro_batch;
  Tensor input;                         // the previous call's output; absent for the first
  absl::Span<const Tensor> parameters;  // whole tensors, in the order of Call::uses
  Tensor output;                        // null when only `saved` is wanted (a recomputation)
  absl::Span<const Tensor> saved;       // all null outside training
  std::byte* workspace = nullptr;
  double* loss = nullptr;  // last call only: the sum of its targets' losses, unscaled
};

// The last call is not run forward in training: its Backward finds the loss, too, and
// so may have its widest tensors a part at a time.
struct BackwardArguments {
  Lane& lane;
  const MicroBatch& micro_batch;
  Tensor input;
  absl::Span<const Tensor> parameters;  // null where Call::backward_reads_parameters is false
  absl::Span<const Tensor> saved;
  Tensor output_gradient;  // absent for the last call
  Tensor input_gradient;   // absent for the first call
  // Overwritten in full, never added to. The activations' dtype, or fp32 for a
  // parameter with several uses, whose contributions the engine adds.
  absl::Span<const Tensor> parameter_gradients;
  std::byte* workspace = nullptr;
  double* loss = nullptr;  // as ForwardArguments'
};

// A differentiable function with a hand-written backward. It knows whole tensors
// and nothing of ranks or sharding; it has no state, so one module may serve
// several calls. All work goes through `lane`'s threads and is deterministic
// whatever their number. Everything it writes is written in full.
class Module {
 public:
  virtual ~Module() = default;

  virtual Footprint Measure(int64_t sequences) const = 0;
  virtual absl::Status Forward(const ForwardArguments& arguments) const = 0;
  virtual absl::Status Backward(const BackwardArguments& arguments) const = 0;
};

// One link of the chain: a module applied to the previous call's output.
struct Call {
  std::string name;  // unique in its model
  std::shared_ptr<const Module> module;
  std::vector<ParameterUse> uses;
  bool backward_reads_parameters = true;
  bool recomputable = false;  // worth recomputing: a block, not an embedding or a head
};

// A model as data: units of parameters, and the chain of calls that uses them.
// The last call ends in the loss. A parameter may be used by several calls (tied
// weights); each must be used at least once.
struct Model {
  std::string name;
  DType dtype = DType::kFloat32;  // of parameters, activations and gradients
  std::vector<UnitSpec> units;
  std::vector<Call> calls;
  // What a sequence of the data holds, e.g. tokens and targets; shapes are for
  // one sequence, and a micro-batch puts the number of sequences in front.
  std::vector<TensorSpec> fields;
  int64_t targets_per_sequence = 1;
  double flops_per_sequence = 0;  // forward and backward; see docs/design.md

  // If set, writes predictions for the chain's last hidden state instead of a
  // loss: same arguments as the last call's Forward, with `output` of this spec.
  std::shared_ptr<const Module> predictor;

  bool IsLast(int call) const { return call + 1 == static_cast<int>(calls.size()); }
};

}  // namespace tessera

#endif  // TESSERA_MODELS_MODULE_H_
