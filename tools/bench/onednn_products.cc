#include <chrono>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#include "kernels/cpu/openmp_threads.h"
#include "tools/bench/ceilings.h"

namespace tessera {

const bool kBuiltWithOneDnn = true;

struct OneDnnProducts::Prepared {
  struct One {
    dnnl::matmul matmul;
    dnnl::memory a, b, c;
    int64_t times;

    double Seconds(dnnl::stream& stream) {
      const auto start = std::chrono::steady_clock::now();
      matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream.wait();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  };
  int threads = 1;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<One> products;
};

OneDnnProducts::OneDnnProducts(absl::Span<const Product> products, DType dtype, int threads)
    : prepared_(std::make_unique<Prepared>()) {
  prepared_->threads = threads;
  using Memory = dnnl::memory;
  const auto type = dtype == DType::kBFloat16 ? Memory::data_type::bf16 : Memory::data_type::f32;
  // A primitive is made for as many threads as OpenMP has where it is made.
  std::thread([&] {
    omp_set_num_threads(threads);
    dnnl::engine& engine = prepared_->engine;
    for (const Product& product : products) {
      operations_ += 2.0 * product.m * product.n * product.k * product.times;
      const auto matrix = [&](int64_t rows, int64_t columns) {
        return Memory::desc({rows, columns}, type, Memory::format_tag::ab);
      };
      const Memory::desc a = matrix(product.m, product.k);
      const Memory::desc b = matrix(product.k, product.n);
      const Memory::desc c = matrix(product.m, product.n);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::matmul::primitive_desc description(engine, a, b, c);
#else
      const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine);
#endif
      Prepared::One one = {dnnl::matmul(description), Memory(a, engine), Memory(b, engine),
                           Memory(c, engine), product.times};
      for (Memory* memory : {&one.a, &one.b, &one.c}) {
        std::memset(memory->get_data_handle(), 0, memory->get_desc().get_size());
      }
      one.Seconds(prepared_->stream);
      prepared_->products.push_back(std::move(one));
    }
  }).join();
}

OneDnnProducts::~OneDnnProducts() = default;

double OneDnnProducts::Seconds() {
  double seconds = 0;
  std::thread([&] {
    omp_set_num_threads(prepared_->threads);
    for (Prepared::One& one : prepared_->products) {
      seconds += one.Seconds(prepared_->stream) * one.times;
    }
  }).join();
  return seconds;
}

}  // namespace tessera
