#include "kernels/cuda/cublaslt_product.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera::kernels::cuda {
namespace {

absl::Status CublasStatus(cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(call, ": ", cublasLtGetStatusString(status), " (", status, ")"));
}

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F; }

// An epilogue, in cuBLASLt's words and in ours. `keeps` and `biased` say which
// operands it has. cuBLASLt's first operand is our b.
struct EpilogueTraits {
  cublasLtEpilogue_t value;
  bool biased;
  bool keeps;
  const char* text;
};

EpilogueTraits TraitsOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return {CUBLASLT_EPILOGUE_DEFAULT, false, false, ""};
    case Epilogue::kAdd:
      return {CUBLASLT_EPILOGUE_DEFAULT, false, false, " added"};
    case Epilogue::kBias:
      return {CUBLASLT_EPILOGUE_BIAS, true, false, " with bias"};
    case Epilogue::kBiasGelu:
      return {CUBLASLT_EPILOGUE_GELU_BIAS, true, false, " with bias and GELU"};
    case Epilogue::kBiasGeluKeep:
      return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true,
              " with bias and GELU, keeping its input"};
    case Epilogue::kGeluGradient:
      return {CUBLASLT_EPILOGUE_DGELU, false, true, " with the derivative of GELU"};
    case Epilogue::kColumnSum:
      return {CUBLASLT_EPILOGUE_BGRADA, true, false, " with the gradient of a bias"};
  }
  return {};
}

std::string TextOf(const ProductShape& shape) {
  return absl::StrCat("matrix product [", shape.m, ", ", shape.k, "]",
                      shape.transpose_a ? " transposed" : "", " by [", shape.k, ", ", shape.n, "]",
                      shape.transpose_b ? " transposed" : "", TraitsOf(shape.epilogue).text, " in ",
                      NameOf(shape.input), " to ", NameOf(shape.output));
}

absl::Status NoAlgorithm(const ProductShape& shape) {
  return absl::UnimplementedError(
      absl::StrCat("cuBLASLt has no algorithm for the ", TextOf(shape)));
}

// cuBLASLt wants its workspace aligned by more than the plan aligns buffers.
constexpr int64_t kWorkspaceAlignment = 256;
constexpr int64_t kWorkspaceBytes = LibraryWorkspaceBytes(Backend::kCuda) - kWorkspaceAlignment;

std::byte* AlignedWorkspace(const CudaLane& lane) {
  std::byte* const workspace = lane.library_workspace();
  const auto beyond = reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment;
  return beyond == 0 ? workspace : workspace + (kWorkspaceAlignment - beyond);
}

// What was chosen for the shapes that were asked for in one lane; null where there
// is nothing to choose.
struct Cache {
  cublasLtHandle_t handle = nullptr;
  std::map<ProductShape, std::unique_ptr<CublasLtProduct>> products;

  ~Cache() {
    products.clear();
    if (handle != nullptr) cublasLtDestroy(handle);
  }
};

}  // namespace

absl::StatusOr<const CublasLtProduct*> CublasLtProduct::Get(CudaLane& lane,
                                                            const ProductShape& shape,
                                                            const ProductOperands& operands) {
  if (lane.library_state() == nullptr) lane.library_state() = std::make_shared<Cache>();
  Cache& cache = *static_cast<Cache*>(lane.library_state().get());
  if (cache.handle == nullptr) {
    TESSERA_RETURN_IF_ERROR(CublasStatus(cublasLtCreate(&cache.handle), "cublasLtCreate"));
  }
  auto found = cache.products.find(shape);
  if (found == cache.products.end()) {
    auto product = std::make_unique<CublasLtProduct>(shape);
    const absl::Status chosen = product->Choose(cache.handle, operands);
    if (absl::IsUnimplemented(chosen)) {
      product.reset();
    } else {
      TESSERA_RETURN_IF_ERROR(chosen);
    }
    found = cache.products.emplace(shape, std::move(product)).first;
  }
  if (found->second == nullptr) return NoAlgorithm(shape);
  return found->second.get();
}

CublasLtProduct::~CublasLtProduct() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, output_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

// A row-major matrix is its transpose to cuBLASLt, whose matrices are column-major:
// d^T = op(b)^T op(a)^T.
absl::Status CublasLtProduct::Describe() {
  TESSERA_RETURN_IF_ERROR(
      CublasStatus(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "cublasLtMatmulDescCreate"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return CublasStatus(
        cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  };
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(shape_.transpose_b)));
  TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(shape_.transpose_a)));
  const EpilogueTraits traits = TraitsOf(shape_.epilogue);
  TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, traits.value));
  if (traits.biased) {
    TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(shape_.bias)));
  }
  if (traits.keeps) {
    TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape_.n));
  }

  const auto layout = [](cublasLtMatrixLayout_t* made, DType dtype, int64_t rows, int64_t columns) {
    return CublasStatus(
        cublasLtMatrixLayoutCreate(made, TypeOf(dtype), static_cast<uint64_t>(columns),
                                   static_cast<uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  };
  const auto [m, n, k] = std::tuple(shape_.m, shape_.n, shape_.k);
  TESSERA_RETURN_IF_ERROR(
      layout(&first_, shape_.input, shape_.transpose_b ? n : k, shape_.transpose_b ? k : n));
  TESSERA_RETURN_IF_ERROR(
      layout(&second_, shape_.input, shape_.transpose_a ? k : m, shape_.transpose_a ? m : k));
  return layout(&output_, shape_.output, m, n);
}

// The pointers that are a part of what is asked for.
absl::Status CublasLtProduct::PointTo(const ProductOperands& operands) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* pointer) {
    return CublasStatus(
        cublasLtMatmulDescSetAttribute(operation_, attribute, &pointer, sizeof(pointer)),
        "cublasLtMatmulDescSetAttribute");
  };
  const EpilogueTraits traits = TraitsOf(shape_.epilogue);
  if (traits.biased) {
    TESSERA_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
  }
  if (!traits.keeps) return absl::OkStatus();
  return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.auxiliary);
}

absl::Status CublasLtProduct::Choose(cublasLtHandle_t handle, const ProductOperands& operands) {
  handle_ = handle;
  TESSERA_RETURN_IF_ERROR(Describe());
  // Or an epilogue that needs them counts as one that is not supported.
  TESSERA_RETURN_IF_ERROR(PointTo(operands));
  cublasLtMatmulPreference_t preference = nullptr;
  TESSERA_RETURN_IF_ERROR(
      CublasStatus(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owner(preference, &cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return CublasStatus(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  TESSERA_RETURN_IF_ERROR(
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes)));
  // Split sums only where a kernel of its own adds the parts, in their order.
  TESSERA_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                 static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    TESSERA_RETURN_IF_ERROR(prefer(attribute, static_cast<uint32_t>(shape_.alignment)));
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, operation_, first_, second_, output_, output_, preference, 1, &result, &found);
  // An epilogue may want more of types and strides than it says.
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (status == CUBLAS_STATUS_INVALID_VALUE && shape_.epilogue != Epilogue::kNone);
  if (refused || (status == CUBLAS_STATUS_SUCCESS && found == 0)) return NoAlgorithm(shape_);
  TESSERA_RETURN_IF_ERROR(CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  algorithm_ = result.algo;
  return absl::OkStatus();
}

absl::Status CublasLtProduct::Run(CudaLane& lane, const ProductOperands& operands) const {
  const float one = 1;
  const float beta = shape_.epilogue == Epilogue::kAdd ? 1 : 0;
  TESSERA_RETURN_IF_ERROR(PointTo(operands));
  const cublasStatus_t status =
      cublasLtMatmul(handle_, operation_, &one, operands.b, first_, operands.a, second_, &beta,
                     operands.d, output_, operands.d, output_, &algorithm_, AlignedWorkspace(lane),
                     kWorkspaceBytes, lane.stream());
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return CublasStatus(status, absl::StrCat("cublasLtMatmul, ", TextOf(shape_)));
}

}  // namespace tessera::kernels::cuda
