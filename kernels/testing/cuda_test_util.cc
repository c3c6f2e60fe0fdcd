#include "kernels/testing/cuda_test_util.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/sanitizers.h"
#ifdef TESSERA_CUDA_ON_CPU
#include "tests/cuda_on_cpu/random.h"
#endif

namespace tessera::kernels {
namespace {

constexpr size_t kGuard = kSanitized ? 0 : 256;  // bytes on either side, a multiple of 256
constexpr int kGuardByte = 0xa5;
constexpr int kPoison = 0xff;
constexpr int kSchedules = 2;  // of every kernel: its bits must not depend on them
constexpr size_t kLibraryWorkspace = size_t{32} << 20;

void Check(cudaError_t error, const char* call) {
  const absl::Status status = CudaStatus(error, call);
  TESSERA_CHECK(status.ok(), status.ToString());
}

// What a lane of the CPU sees in place of a DeviceArray.
class HostCopy {
 public:
  explicit HostCopy(const Array& array) : copy_(array.Copy()) {}
  const Tensor& tensor() const { return copy_.tensor(); }
  Array Download() const { return copy_.Copy(); }

 private:
  Array copy_;
};

template <typename Memory>
std::vector<Array> RunOnce(Lane& lane, const std::vector<const Array*>& operands,
                           const Kernel& kernel, int64_t workspace_bytes) {
  const Array workspace(DType::kInt32, {(workspace_bytes + 3) / 4});
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<Tensor> tensors;
  for (const Array* operand : operands) memory.push_back(std::make_unique<Memory>(*operand));
  if (workspace_bytes > 0) memory.push_back(std::make_unique<Memory>(workspace));
  for (const auto& own : memory) tensors.push_back(own->tensor());
  const absl::Status status = kernel(lane, tensors);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<Array> results;
  for (size_t i = 0; i < operands.size(); ++i) results.push_back(memory[i]->Download());
  return results;
}

}  // namespace

StreamLane::StreamLane() {
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  void* fault = nullptr;
  Check(cudaHostAlloc(&fault, sizeof(CudaFault), cudaHostAllocDefault), "cudaHostAlloc");
  fault_ = new (fault) CudaFault;
  void* workspace = nullptr;
  Check(cudaMalloc(&workspace, kLibraryWorkspace), "cudaMalloc");
  library_workspace_ = static_cast<std::byte*>(workspace);
}

StreamLane::~StreamLane() {
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  Check(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  Check(cudaFreeHost(fault_), "cudaFreeHost");
  Check(cudaFree(library_workspace_), "cudaFree");
}

void StreamLane::Enqueue(std::function<absl::Status()> work) {
  const absl::Status status = work();
  ASSERT_TRUE(status.ok()) << status;
}

void StreamLane::EnqueueHost(std::function<absl::Status()> work) {
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  Enqueue(std::move(work));
}

DeviceArray::DeviceArray(DType dtype, Shape shape) : tensor_{nullptr, dtype, std::move(shape)} {
  const auto bytes = static_cast<size_t>(tensor_.bytes());
  void* memory = nullptr;
  Check(cudaMalloc(&memory, std::max<size_t>(bytes + 2 * kGuard, 1)), "cudaMalloc");
  memory_ = static_cast<std::byte*>(memory);
  tensor_.data = memory_ + kGuard;
  if (kGuard > 0) Check(cudaMemset(memory_, kGuardByte, bytes + 2 * kGuard), "cudaMemset");
  if (bytes > 0) Check(cudaMemset(tensor_.data, kPoison, bytes), "cudaMemset");
  // A stream of a lane does not wait for the default stream.
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceArray::DeviceArray(const Array& array)
    : DeviceArray(array.tensor().dtype, array.tensor().shape) {
  const auto bytes = static_cast<size_t>(tensor_.bytes());
  if (bytes == 0) return;
  Check(cudaMemcpy(tensor_.data, array.bytes(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

DeviceArray::~DeviceArray() {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<unsigned char> guard(kGuard);
  for (const std::byte* start : {memory_, memory_ + kGuard + tensor_.bytes()}) {
    if (guard.empty()) break;
    EXPECT_EQ(cudaMemcpy(guard.data(), start, kGuard, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_TRUE(std::all_of(guard.begin(), guard.end(),
                            [](unsigned char byte) { return byte == kGuardByte; }))
        << "something was written " << (start == memory_ ? "before" : "behind") << " a "
        << NameOf(tensor_.dtype) << " tensor of " << tensor_.elements();
  }
  EXPECT_EQ(cudaFree(memory_), cudaSuccess);
}

Array DeviceArray::Download() const {
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  Array array(tensor_.dtype, tensor_.shape);
  const auto bytes = static_cast<size_t>(tensor_.bytes());
  if (bytes > 0) {
    Check(cudaMemcpy(array.bytes(), tensor_.data, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }
  return array;
}

std::vector<Array> RunKernel(Lane& lane, const std::vector<const Array*>& operands,
                             const Kernel& kernel, int64_t workspace_bytes) {
  if (lane.backend() == Backend::kCpu) {
    return RunOnce<HostCopy>(lane, operands, kernel, workspace_bytes);
  }
  std::vector<Array> results;
  for (int schedule = 0; schedule < kSchedules; ++schedule) {
#ifdef TESSERA_CUDA_ON_CPU
    cuda_on_cpu::SetSeed(cuda_on_cpu::Seed() + 1);
#endif
    std::vector<Array> again = RunOnce<DeviceArray>(lane, operands, kernel, workspace_bytes);
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(again[i].SameBits(results[i])) << "operand " << i << " differs between runs";
    }
    results = std::move(again);
  }
  return results;
}

Tensor Part(const Tensor& whole, int64_t first, int64_t count) {
  return {static_cast<std::byte*>(whole.data) + first * SizeOf(whole.dtype), whole.dtype, {count}};
}

void CudaTest::SetUp() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  lane_ = std::make_unique<StreamLane>();
}

void CudaTest::TearDown() {
  if (lane_ == nullptr) return;
  EXPECT_EQ(TakeFault().kind, CudaFault::kNone);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

void CudaTest::ExpectSameBitsAsCpu(const std::vector<const Array*>& operands, const Kernel& kernel,
                                   int64_t workspace_bytes) {
  InlineLane cpu(1);
  const std::vector<Array> expected = RunKernel(cpu, operands, kernel, workspace_bytes);
  const std::vector<Array> actual = RunKernel(lane(), operands, kernel, workspace_bytes);
  for (size_t i = 0; i < operands.size(); ++i) {
    EXPECT_TRUE(actual[i].SameBits(expected[i]))
        << "operand " << i << " of " << actual[i].tensor().elements();
  }
}

CudaFault CudaTest::TakeFault() {
  EXPECT_EQ(cudaStreamSynchronize(lane_->stream()), cudaSuccess);
  return std::exchange(*lane_->fault(), CudaFault{});
}

}  // namespace tessera::kernels
