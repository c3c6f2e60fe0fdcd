#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "kernels/cpu/scratch.h"

namespace tessera::kernels {
namespace {

// oneDNN's own threading splits sums in ways that depend on the number of
// threads, so each of our threads keeps it to one.
void UseOneThread() {
  static thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& Stream() {
  static thread_local dnnl::stream stream(Engine());
  return stream;
}

dnnl::memory::data_type DataType(DType dtype) {
  return dtype == DType::kBFloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc Describe(int64_t rows, int64_t columns, DType dtype, int64_t stride,
                            Transpose transpose) {
  const dnnl::memory::dims strides =
      transpose == Transpose::kNo ? dnnl::memory::dims{stride, 1} : dnnl::memory::dims{1, stride};
  return {{rows, columns}, DataType(dtype), strides};
}

dnnl::matmul::primitive_desc DescribeProduct(const GemmShape& shape) {
  const auto a = Describe(shape.m, shape.k, shape.input, shape.a_stride, shape.transpose_a);
  const auto b = Describe(shape.k, shape.n, shape.input, shape.b_stride, shape.transpose_b);
  const auto c = Describe(shape.m, shape.n, shape.output, shape.c_stride, Transpose::kNo);
  const auto bias = shape.bias ? Describe(1, shape.n, shape.input, shape.n, Transpose::kNo)
                               : dnnl::memory::desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops add;
    add.append_sum();
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(Engine(), a, b, bias, c, attributes);
#else
  return {dnnl::matmul::desc(a, b, bias, c), attributes, Engine()};
#endif
}

class OneDnnGemm : public Gemm {
 public:
  explicit OneDnnGemm(const GemmShape& shape)
      : descriptor_(DescribeProduct(shape)),
        product_(descriptor_),
        a_(descriptor_.src_desc()),
        b_(descriptor_.weights_desc()),
        c_(descriptor_.dst_desc()),
        bias_(descriptor_.bias_desc()),
        scratch_(descriptor_.scratchpad_desc()) {}

  void Run(const void* a, const void* b, const void* bias, void* c) const override {
    UseOneThread();
    const auto memory = [](const dnnl::memory::desc& desc, const void* data) {
      return dnnl::memory(desc, Engine(), const_cast<void*>(data));
    };
    std::byte* scratch = Scratch<std::byte>(ScratchUse::kGemm, scratch_.get_size());
    const dnnl::memory memories[] = {memory(a_, a), memory(b_, b), memory(c_, c),
                                     memory(scratch_, scratch),
                                     bias == nullptr ? dnnl::memory() : memory(bias_, bias)};
    // The C interface: the other one builds a hash table for each call.
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memories[0].get()},
                                         {DNNL_ARG_WEIGHTS, memories[1].get()},
                                         {DNNL_ARG_DST, memories[2].get()},
                                         {DNNL_ARG_SCRATCHPAD, memories[3].get()},
                                         {DNNL_ARG_BIAS, memories[4].get(/*allow_empty=*/true)}};
    const dnnl_status_t status =
        dnnl_primitive_execute(product_.get(), Stream().get(), bias == nullptr ? 4 : 5, arguments);
    TESSERA_CHECK(status == dnnl_success, absl::StrCat("oneDNN status ", status));
  }

 private:
  const dnnl::matmul::primitive_desc descriptor_;
  const dnnl::matmul product_;
  const dnnl::memory::desc a_;
  const dnnl::memory::desc b_;
  const dnnl::memory::desc c_;
  const dnnl::memory::desc bias_;
  const dnnl::memory::desc scratch_;
};

// For processors on which oneDNN has no bf16: the operands become fp32, densely.
class WidenedGemm : public Gemm {
 public:
  explicit WidenedGemm(const GemmShape& shape) : shape_(shape), product_(WithoutBFloat16(shape)) {}

  void Run(const void* a, const void* b, const void* bias, void* c) const override {
    const GemmShape& shape = shape_;
    const bool a_is_stored_transposed = shape.transpose_a == Transpose::kYes;
    const bool b_is_stored_transposed = shape.transpose_b == Transpose::kYes;
    const int64_t a_elements = shape.m * shape.k;
    const int64_t b_elements = shape.k * shape.n;
    float* wide_a = Scratch<float>(ScratchUse::kWidenedGemm,
                                   a_elements + b_elements + shape.n + shape.m * shape.n);
    float* wide_b = wide_a + a_elements;
    float* wide_bias = wide_b + b_elements;
    float* wide_c = wide_bias + shape.n;
    Widen(a, a_is_stored_transposed ? shape.k : shape.m, a_is_stored_transposed ? shape.m : shape.k,
          shape.a_stride, wide_a);
    Widen(b, b_is_stored_transposed ? shape.n : shape.k, b_is_stored_transposed ? shape.k : shape.n,
          shape.b_stride, wide_b);
    if (bias != nullptr) Widen(bias, 1, shape.n, shape.n, wide_bias);
    if (shape.output == DType::kFloat32) {
      product_.Run(wide_a, wide_b, bias == nullptr ? nullptr : wide_bias, c);
      return;
    }
    product_.Run(wide_a, wide_b, bias == nullptr ? nullptr : wide_bias, wide_c);
    BFloat16* narrow = static_cast<BFloat16*>(c);
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        narrow[i * shape.c_stride + j] = BFloat16(wide_c[i * shape.n + j]);
      }
    }
  }

 private:
  static GemmShape WithoutBFloat16(GemmShape shape) {
    shape.a_stride = shape.transpose_a == Transpose::kYes ? shape.m : shape.k;
    shape.b_stride = shape.transpose_b == Transpose::kYes ? shape.k : shape.n;
    if (shape.output == DType::kBFloat16) shape.c_stride = shape.n;
    shape.input = DType::kFloat32;
    shape.output = DType::kFloat32;
    return shape;
  }

  static void Widen(const void* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
    const BFloat16* narrow = static_cast<const BFloat16*>(from);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        to[i * columns + j] = static_cast<float>(narrow[i * stride + j]);
      }
    }
  }

  const GemmShape shape_;
  const OneDnnGemm product_;
};

std::string Describe(const GemmShape& shape) {
  return absl::StrCat(NameOf(shape.input), " matrix product [", shape.m, ", ", shape.k, "] [",
                      shape.k, ", ", shape.n, "] to ", NameOf(shape.output));
}

absl::StatusOr<std::unique_ptr<const Gemm>> Make(const GemmShape& shape) {
  UseOneThread();
  try {
    try {
      return std::make_unique<OneDnnGemm>(shape);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented || shape.input != DType::kBFloat16) throw;
      return std::make_unique<WidenedGemm>(shape);
    }
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat("oneDNN: ", Describe(shape), ": ", error.message);
    return error.status == dnnl_out_of_memory ? absl::ResourceExhaustedError(message)
                                              : absl::UnimplementedError(message);
  }
}

}  // namespace

absl::StatusOr<const Gemm*> Gemm::Get(const GemmShape& shape) {
  static std::mutex mutex;
  static auto& products = *new std::map<GemmShape, std::unique_ptr<const Gemm>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Gemm>& product = products[shape];
  if (product == nullptr) {
    TESSERA_CHECK(shape.m > 0 && shape.n > 0 && shape.k > 0, Describe(shape));
    TESSERA_ASSIGN_OR_RETURN(product, Make(shape));
  }
  return product.get();
}

bool BFloat16IsFast() {
  // An instruction set's bits include those of the sets that it extends.
  const int wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace tessera::kernels
