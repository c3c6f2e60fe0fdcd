#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "core/status.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// Matrices multiplied by cuBLASLt, among other work.
namespace tessera::cuda_on_cpu {
namespace {

constexpr int kSize = 24;
constexpr int kCount = kSize * kSize;
constexpr size_t kWorkspaceBytes = 4096;

void Succeed(cudaError_t error) { TESSERA_CHECK(error == cudaSuccess, cudaGetErrorName(error)); }
void Succeed(cublasStatus_t status) {
  TESSERA_CHECK(status == CUBLAS_STATUS_SUCCESS, cublasLtGetStatusName(status));
}

// c = a b + bias of square matrices, column by column.
class Multiplication {
 public:
  explicit Multiplication(const float* bias) {
    Succeed(cublasLtCreate(&handle_));
    Succeed(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    Succeed(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof(epilogue)));
    Succeed(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof(bias)));
    Succeed(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_32F, kSize, kSize, kSize));
  }
  ~Multiplication() {
    cublasLtMatrixLayoutDestroy(layout_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtDestroy(handle_);
  }

  void Run(const TestLane& lane, float* c, const float* a, const float* b, float* workspace) const {
    const float one = 1;
    const float zero = 0;
    Succeed(cublasLtMatmul(handle_, operation_, &one, a, layout_, b, layout_, &zero, c, layout_, c,
                           layout_, nullptr, workspace, kWorkspaceBytes, lane.stream()));
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
};

void Order(const TestLane& before, const TestLane& after) {
  cudaEvent_t event = nullptr;
  Succeed(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Succeed(cudaEventRecord(event, before.stream()));
  Succeed(cudaStreamWaitEvent(after.stream(), event, 0));
  Succeed(cudaEventDestroy(event));
}

enum class Left : uint8_t {
  kNothing,
  kMatmulWaitsForOperand,
  kMatmulWaitsForBias,
  kOperandWaitsForMatmul,
  kReaderWaitsForMatmul,
};

// c = (2 x) identity + 2 bias, twice, operands made in one stream and used in another.
bool Products(Left left) {
  TestLane make;
  TestLane multiply;
  std::vector<float> one(kCount);
  for (int i = 0; i < kSize; ++i) one[i * kSize + i] = 1;
  const std::vector<float> numbers = Numbers(kCount);
  const DeviceArray<float> x(numbers);
  const DeviceArray<float> identity(one);
  const DeviceArray<float> a(kCount);
  const DeviceArray<float> bias(kSize);
  const DeviceArray<float> c(2 * kCount);
  const DeviceArray<float> copy(2 * kCount);
  const DeviceArray<float> workspace(kWorkspaceBytes / sizeof(float));
  const Multiplication product(bias.data());
  for (int round = 0; round < 2; ++round) {
    const auto factor = static_cast<float>(round + 2);
    if (left != Left::kOperandWaitsForMatmul) Order(multiply, make);
    if (left == Left::kMatmulWaitsForOperand) {
      TESSERA_CHECK(Scale(make, bias.data(), x.data(), factor, kSize).ok(), "");
      Order(make, multiply);
    }
    TESSERA_CHECK(Scale(make, a.data(), x.data(), factor, kCount).ok(), "");
    if (left == Left::kMatmulWaitsForBias) Order(make, multiply);
    if (left != Left::kMatmulWaitsForOperand) {
      TESSERA_CHECK(Scale(make, bias.data(), x.data(), factor, kSize).ok(), "");
      if (left != Left::kMatmulWaitsForBias) Order(make, multiply);
    }
    product.Run(multiply, c.data() + round * kCount, a.data(), identity.data(), workspace.data());
  }
  if (left != Left::kReaderWaitsForMatmul) Order(multiply, make);
  TESSERA_CHECK(Scale(make, copy.data(), c.data(), 1, 2 * kCount).ok(), "");
  const std::vector<float> result = copy.Values();
  bool right = true;
  for (int i = 0; i < 2 * kCount; ++i) {
    const auto factor = static_cast<float>(i / kCount + 2);
    right &= result[i] == factor * (numbers[i % kCount] + numbers[i % kSize]);
  }
  return right;
}

template <Left kLeft>
bool ProductsWithout(bool bug) {
  return Products(bug ? kLeft : Left::kNothing);
}

// Something else lies where the library is told to work.
bool WorkspaceInUse(bool bug) {
  TestLane lane;
  const std::vector<float> numbers = Numbers(kCount);
  const DeviceArray<float> x(numbers);
  const DeviceArray<float> bias{std::vector<float>(kSize)};
  const DeviceArray<float> c(kCount);
  const DeviceArray<float> kept{std::vector<float>(2048, 5.0f)};
  const Multiplication product(bias.data());
  product.Run(lane, c.data(), x.data(), x.data(), kept.data() + (bug ? 512 : 1024));
  return kept.Values()[1023] == 5.0f;
}

bool WorkspacePastTheEnd(bool bug) {
  TestLane lane;
  const DeviceArray<float> x(Numbers(kCount));
  const DeviceArray<float> bias{std::vector<float>(kSize)};
  const DeviceArray<float> c(kCount);
  const DeviceArray<float> workspace(kWorkspaceBytes / sizeof(float));
  const Multiplication product(bias.data());
  product.Run(lane, c.data(), x.data(), x.data(), workspace.data() + (bug ? 1 : 0));
  return true;
}

}  // namespace

std::vector<Program> MatmulPrograms() {
  return {
      {"matmul does not wait for an operand", &ProductsWithout<Left::kMatmulWaitsForOperand>},
      {"matmul does not wait for the bias", &ProductsWithout<Left::kMatmulWaitsForBias>},
      {"operand overwritten before matmul", &ProductsWithout<Left::kOperandWaitsForMatmul>},
      {"reader does not wait for matmul", &ProductsWithout<Left::kReaderWaitsForMatmul>},
      {"matmul's workspace holds something", &WorkspaceInUse},
      {"matmul's workspace past the end", &WorkspacePastTheEnd},
  };
}

}  // namespace tessera::cuda_on_cpu
