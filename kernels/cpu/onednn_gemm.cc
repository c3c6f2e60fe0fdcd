#include <cstddef>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/openmp_threads.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/transposed_copy.h"
#include "kernels/cpu/widen.h"

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
    const Arguments& arguments = OwnArguments();
    const auto set = [](const dnnl::memory& memory, const void* data) {
      dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data));
    };
    set(arguments.a, a);
    set(arguments.b, b);
    set(arguments.c, c);
    set(arguments.scratch, Scratch<std::byte>(ScratchUse::kGemm, scratch_.get_size()));
    if (bias != nullptr) set(arguments.bias, bias);
    // The C interface: the other one builds a hash table for each call.
    const dnnl_exec_arg_t list[] = {{DNNL_ARG_SRC, arguments.a.get()},
                                    {DNNL_ARG_WEIGHTS, arguments.b.get()},
                                    {DNNL_ARG_DST, arguments.c.get()},
                                    {DNNL_ARG_SCRATCHPAD, arguments.scratch.get()},
                                    {DNNL_ARG_BIAS, arguments.bias.get(/*allow_empty=*/true)}};
    const dnnl_status_t status =
        dnnl_primitive_execute(product_.get(), Stream().get(), bias == nullptr ? 4 : 5, list);
    TESSERA_CHECK(status == dnnl_success, absl::StrCat("oneDNN status ", status));
  }

 private:
  struct Arguments {
    dnnl::memory a, b, c, scratch, bias;
  };

  // The calling thread's, made at its first call: making them anew for each call
  // takes a fifth of a small product's time.
  const Arguments& OwnArguments() const {
    static thread_local std::unordered_map<const OneDnnGemm*, Arguments> own;
    const auto [at, is_new] = own.try_emplace(this);
    if (is_new) {
      const auto memory = [](const dnnl::memory::desc& desc) {
        return dnnl::memory(desc, Engine(), DNNL_MEMORY_NONE);
      };
      at->second = {memory(a_), memory(b_), memory(c_), memory(scratch_),
                    bias_.get_size() == 0 ? dnnl::memory() : memory(bias_)};
    }
    return at->second;
  }

  const dnnl::matmul::primitive_desc descriptor_;
  const dnnl::matmul product_;
  const dnnl::memory::desc a_;
  const dnnl::memory::desc b_;
  const dnnl::memory::desc c_;
  const dnnl::memory::desc bias_;
  const dnnl::memory::desc scratch_;
};

// oneDNN has its fastest bf16 product (AMX through brgemm: about twice the rate of
// the next) only for dense operands, and then best for an a that is not transposed.
// Others are copied, tile by tile, which costs far less than it saves.
class DenseGemm : public Gemm {
 public:
  // Whether it is the faster way: the product must be large enough, and a copy of a
  // must serve enough columns of b.
  static bool Suits(const GemmShape& shape) {
    if (shape.input != DType::kBFloat16 || !BFloat16IsFast()) return false;
    if (shape.accumulate && CopiesC(shape)) return false;
    if (shape.m * shape.n * shape.k < int64_t{1} << 24) return false;
    if (shape.transpose_a == Transpose::kYes) return shape.n >= kDenseColumns;
    return CopiesA(shape) || CopiesB(shape) || CopiesC(shape);
  }

  explicit DenseGemm(const GemmShape& shape) : shape_(shape), product_(MakeDense(shape)) {}

  void Run(const void* a, const void* b, const void* bias, void* c) const override {
    const GemmShape& shape = shape_;
    const auto padded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const int64_t a_bytes = CopiesA(shape) ? padded(shape.m * shape.k * SizeOf(shape.input)) : 0;
    const int64_t b_bytes = CopiesB(shape) ? padded(shape.k * shape.n * SizeOf(shape.input)) : 0;
    const int64_t c_bytes = CopiesC(shape) ? shape.m * shape.n * SizeOf(shape.output) : 0;
    std::byte* dense = Scratch<std::byte>(ScratchUse::kCopyingGemm, a_bytes + b_bytes + c_bytes);
    std::byte* dense_b = dense + a_bytes;
    void* dense_c = c_bytes > 0 ? dense_b + b_bytes : c;
    if (a_bytes > 0) {
      CopyA(a, dense);
      a = dense;
    }
    if (b_bytes > 0) {
      const bool stored_transposed = shape.transpose_b == Transpose::kYes;
      const int64_t row = (stored_transposed ? shape.k : shape.n) * SizeOf(shape.input);
      CopyRows(b, shape.b_stride * SizeOf(shape.input), stored_transposed ? shape.n : shape.k, row,
               dense_b, row);
      b = dense_b;
    }
    product_.Run(a, b, bias, dense_c);
    if (c_bytes > 0) {
      const int64_t row = shape.n * SizeOf(shape.output);
      CopyRows(dense_c, row, shape.m, row, c, shape.c_stride * SizeOf(shape.output));
    }
  }

 private:
  static bool CopiesA(const GemmShape& shape) {
    return shape.transpose_a == Transpose::kYes || shape.a_stride != shape.k;
  }
  static bool CopiesB(const GemmShape& shape) {
    return shape.b_stride != (shape.transpose_b == Transpose::kYes ? shape.k : shape.n);
  }
  static bool CopiesC(const GemmShape& shape) { return shape.c_stride != shape.n; }

  static GemmShape MakeDense(GemmShape shape) {
    shape.transpose_a = Transpose::kNo;
    shape.a_stride = shape.k;
    shape.b_stride = shape.transpose_b == Transpose::kYes ? shape.k : shape.n;
    shape.c_stride = shape.n;
    return shape;
  }

  // Strides and lengths in bytes.
  static void CopyRows(const void* from, int64_t from_stride, int64_t rows, int64_t row, void* to,
                       int64_t to_stride) {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(static_cast<std::byte*>(to) + i * to_stride,
                  static_cast<const std::byte*>(from) + i * from_stride, row);
    }
  }

  void CopyA(const void* a, std::byte* dense) const {
    const GemmShape& shape = shape_;
    const int64_t row = shape.k * SizeOf(shape.input);
    if (shape.transpose_a == Transpose::kNo) {
      CopyRows(a, shape.a_stride * SizeOf(shape.input), shape.m, row, dense, row);
      return;
    }
    TransposedCopy(static_cast<const BFloat16*>(a), shape.k, shape.m, shape.a_stride,
                   reinterpret_cast<BFloat16*>(dense));
  }

  const GemmShape shape_;
  const OneDnnGemm product_;
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
    Narrow(wide_c, shape.m, shape.n, shape.c_stride, c);
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

  const GemmShape shape_;
  const OneDnnGemm product_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Gemm>> Gemm::Make(const GemmShape& shape) {
  UseOneThread();
  try {
    try {
      if (DenseGemm::Suits(shape)) return std::make_unique<DenseGemm>(shape);
      return std::make_unique<OneDnnGemm>(shape);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented || shape.input != DType::kBFloat16) throw;
      return std::make_unique<WidenedGemm>(shape);
    }
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat("oneDNN: ", shape.Describe(), ": ", error.message);
    return error.status == dnnl_out_of_memory ? absl::ResourceExhaustedError(message)
                                              : absl::UnimplementedError(message);
  }
}

bool BFloat16IsFast() {
  // An instruction set's bits include those of the sets that it extends.
  const int wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace tessera::kernels
