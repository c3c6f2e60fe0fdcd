#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/ordered_sum.h"
#include "kernels/softmax_cross_entropy.h"
#include "tools/bench/gpu_ceilings.h"
#include "tools/bench/gpu_parts.h"
#include "tools/train/run_device.h"

namespace tessera {
namespace {

// A kernel's work, ready to be issued, and how much that is.
struct Work {
  std::string name;
  std::function<absl::Status()> issue;
  double amount = 0;  // bytes or operations
  double goal = 0;    // of the ceiling's rate
};

// Makes works and the tensors they are on.
class Workbench {
 public:
  Workbench(Device& device, const GpuBenchSizes& sizes) : device_(device), sizes_(sizes) {}

  absl::StatusOr<std::vector<Work>> MemoryBound();
  absl::StatusOr<std::vector<Work>> Attention();

 private:
  static constexpr double kMemoryGoal = 0.85;

  Lane& lane() { return device_.lane(0); }
  absl::StatusOr<Tensor> Make(DType dtype, Shape shape) {
    return RandomTensor(device_, dtype, std::move(shape));
  }
  absl::Status AddNormalization(std::vector<Work>& works);
  absl::Status AddGelu(std::vector<Work>& works);
  absl::Status AddAdamW(std::vector<Work>& works);
  absl::Status AddOrderedSum(std::vector<Work>& works);
  absl::Status AddLoss(std::vector<Work>& works);

  Device& device_;
  const GpuBenchSizes& sizes_;
};

constexpr DType kFloat = DType::kFloat32;
constexpr DType kHalf = DType::kBFloat16;

double BytesOf(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

absl::StatusOr<std::vector<Work>> Workbench::MemoryBound() {
  std::vector<Work> works;
  TESSERA_RETURN_IF_ERROR(AddNormalization(works));
  TESSERA_RETURN_IF_ERROR(AddGelu(works));
  TESSERA_RETURN_IF_ERROR(AddAdamW(works));
  TESSERA_RETURN_IF_ERROR(AddOrderedSum(works));
  TESSERA_RETURN_IF_ERROR(AddLoss(works));
  return works;
}

absl::Status Workbench::AddNormalization(std::vector<Work>& works) {
  const Shape shape = {sizes_.rows, sizes_.width};
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor residual, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor out, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor weight, Make(kHalf, {sizes_.width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor bias, Make(kHalf, {sizes_.width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor mean, Make(kFloat, {sizes_.rows}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor rstd, Make(kFloat, {sizes_.rows}));
  TESSERA_ASSIGN_OR_RETURN(
      std::byte* const workspace,
      device_.Allocate(MemoryKind::kDevice,
                       kernels::LayerNormBackwardWorkspace(sizes_.rows, sizes_.width)));
  const double bytes = BytesOf({x, residual, sum, out, mean, rstd});
  works.push_back({"layernorm_forward",
                   [=, this] {
                     return kernels::LayerNormForward(lane(), x, &residual, &sum, weight, bias, out,
                                                      mean, rstd);
                   },
                   bytes, kMemoryGoal});
  // What the forward wrote last is what the backward reads: out stands for a gradient.
  works.push_back({"layernorm_backward",
                   [=, this] {
                     return kernels::LayerNormBackward(lane(), out, sum, weight, mean, rstd,
                                                       &residual, x, weight, bias, workspace);
                   },
                   bytes, kMemoryGoal});
  return absl::OkStatus();
}

absl::Status Workbench::AddGelu(std::vector<Work>& works) {
  const Shape shape = {sizes_.rows, sizes_.width};
  TESSERA_ASSIGN_OR_RETURN(const Tensor x, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor y, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor dy, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor dx, Make(kHalf, shape));
  works.push_back({"gelu_forward", [=, this] { return kernels::GeluForward(lane(), x, y); },
                   BytesOf({x, y}), kMemoryGoal});
  works.push_back({"gelu_backward",
                   [=, this] { return kernels::GeluBackward(lane(), x, dy, y, dx); },
                   BytesOf({x, dy, y, dx}), kMemoryGoal});
  return absl::OkStatus();
}

absl::Status Workbench::AddAdamW(std::vector<Work>& works) {
  const Shape shape = {sizes_.parameters};
  TESSERA_ASSIGN_OR_RETURN(const Tensor gradient, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor parameter, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor master, Make(kFloat, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor first, Make(kFloat, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor second, Make(kFloat, shape));
  const kernels::AdamWScalars scalars = kernels::MakeAdamWScalars(1e-4, 0.9, 0.95, 1e-8, 0.1, 1);
  works.push_back({"adamw",
                   [=, this] {
                     return kernels::AdamW(lane(), scalars, gradient, nullptr, master, first,
                                           second, &parameter);
                   },
                   BytesOf({gradient, parameter}) + 2 * BytesOf({master, first, second}),
                   kMemoryGoal});
  return absl::OkStatus();
}

absl::Status Workbench::AddOrderedSum(std::vector<Work>& works) {
  const Shape shape = {sizes_.parameters};
  TESSERA_ASSIGN_OR_RETURN(const Tensor total, Make(kHalf, shape));
  double bytes = BytesOf({total});
  std::vector<Tensor> pieces(sizes_.pieces);
  for (Tensor& piece : pieces) {
    TESSERA_ASSIGN_OR_RETURN(piece, Make(kHalf, shape));
    bytes += BytesOf({piece});
  }
  works.push_back({"ordered_sum",
                   [=, this] {
                     kernels::AccumulateArguments arguments;
                     arguments.pieces = pieces;
                     arguments.total = &total;
                     return kernels::AccumulateOrdered(lane(), arguments);
                   },
                   bytes, kMemoryGoal});
  return absl::OkStatus();
}

absl::Status Workbench::AddLoss(std::vector<Work>& works) {
  const Shape shape = {sizes_.loss_rows, sizes_.vocabulary};
  TESSERA_ASSIGN_OR_RETURN(const Tensor logits, Make(kFloat, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor gradient, Make(kHalf, shape));
  TESSERA_ASSIGN_OR_RETURN(const Tensor targets, Make(DType::kInt32, {sizes_.loss_rows}));
  TESSERA_ASSIGN_OR_RETURN(
      std::byte* const losses,
      device_.Allocate(MemoryKind::kDevice, sizes_.loss_rows * SizeOf(DType::kFloat64)));
  works.push_back({"softmax_cross_entropy",
                   [=, this] {
                     return kernels::SoftmaxCrossEntropy(lane(), logits, targets, 0, 1.0f,
                                                         reinterpret_cast<double*>(losses),
                                                         &gradient);
                   },
                   BytesOf({logits, gradient}), kMemoryGoal});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Work>> Workbench::Attention() {
  const int64_t heads = sizes_.heads;
  const int64_t width = heads * sizes_.head_size;
  TESSERA_ASSIGN_OR_RETURN(const Tensor qkv,
                           Make(kHalf, {sizes_.batch, sizes_.context, 3 * width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor d_qkv,
                           Make(kHalf, {sizes_.batch, sizes_.context, 3 * width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor out, Make(kHalf, {sizes_.batch, sizes_.context, width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor d_out, Make(kHalf, {sizes_.batch, sizes_.context, width}));
  TESSERA_ASSIGN_OR_RETURN(const Tensor log_sum_exp,
                           Make(kFloat, {sizes_.batch, heads, sizes_.context}));
  TESSERA_ASSIGN_OR_RETURN(
      std::byte* const workspace,
      device_.Allocate(MemoryKind::kDevice,
                       kernels::AttentionBackwardWorkspace(sizes_.batch, heads, sizes_.context)));
  // Half of the square, since it is causal: of two products forward, of five backward.
  const double half = static_cast<double>(sizes_.batch * sizes_.context * sizes_.context * width);
  std::vector<Work> works;
  works.push_back({"attention_forward",
                   [=, this] {
                     return kernels::AttentionForward(lane(), qkv, heads, heads, 0.0f, RandomKey(),
                                                      out, log_sum_exp);
                   },
                   2 * half, 0.50});
  works.push_back({"attention_backward",
                   [=, this] {
                     return kernels::AttentionBackward(lane(), qkv, out, log_sum_exp, d_out, heads,
                                                       heads, 0.0f, RandomKey(), d_qkv, workspace);
                   },
                   5 * half, 0.40});
  return works;
}

// Measures `works` in turn with the ceiling that they are compared with.
absl::Status Compare(const std::vector<Work>& works, const std::string& against,
                     const std::string& unit,
                     const std::function<absl::StatusOr<double>()>& ceiling, GpuTimer& timer,
                     const GpuBenchSizes& sizes, GpuReport& report) {
  std::vector<double> ceilings;
  std::vector<std::vector<double>> rates(works.size());
  for (int round = 0; round < sizes.uncounted + sizes.rounds; ++round) {
    const bool counts = round >= sizes.uncounted;
    TESSERA_ASSIGN_OR_RETURN(const double highest, ceiling());
    if (counts) ceilings.push_back(highest);
    for (size_t i = 0; i < works.size(); ++i) {
      TESSERA_ASSIGN_OR_RETURN(const double seconds, timer.Seconds(sizes.repeats, works[i].issue));
      if (counts) rates[i].push_back(works[i].amount / seconds);
    }
  }
  const Spread highest = SpreadOf(ceilings);
  report.Add({.name = against, .unit = unit, .value = highest});
  for (size_t i = 0; i < works.size(); ++i) {
    report.Add({.name = works[i].name,
                .unit = unit,
                .value = SpreadOf(rates[i]),
                .against = against,
                .ceiling = highest.median,
                .goal = works[i].goal});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchGpuKernels(const GpuBenchSizes& sizes, GpuReport& report) {
  TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                           MakeDevice(Backend::kCuda, /*threads=*/1));
  GpuTimer timer(*device);
  TESSERA_ASSIGN_OR_RETURN(GpuCeilings ceilings, GpuCeilings::Create(*device, timer, sizes));
  Workbench bench(*device, sizes);
  report.Title("kernels that are bound by memory, bf16");
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Work> memory_bound, bench.MemoryBound());
  TESSERA_RETURN_IF_ERROR(Compare(
      memory_bound, "copy", "B/s", [&] { return ceilings.CopyRate(); }, timer, sizes, report));
  report.Title("attention, bf16");
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Work> attention, bench.Attention());
  return Compare(
      attention, "product", "flop/s", [&] { return ceilings.ProductRate(); }, timer, sizes, report);
}

}  // namespace tessera
