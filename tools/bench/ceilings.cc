#include "tools/bench/ceilings.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#include "core/thread_pool.h"

namespace tessera {
namespace {

constexpr int kTries = 5;

template <typename Work>
double BestSeconds(Work work) {
  double best = 1e30;
  work();  // the first time everything is made
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

double SecondsOf(const Product& product, DType dtype, dnnl::engine& engine, dnnl::stream& stream) {
  using Memory = dnnl::memory;
  const auto type = dtype == DType::kBFloat16 ? Memory::data_type::bf16 : Memory::data_type::f32;
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
  const dnnl::matmul matmul(description);
  Memory a_memory(a, engine), b_memory(b, engine), c_memory(c, engine);
  for (Memory* memory : {&a_memory, &b_memory, &c_memory}) {
    std::memset(memory->get_data_handle(), 0, memory->get_desc().get_size());
  }
  return BestSeconds([&] {
    matmul.execute(
        stream, {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}});
    stream.wait();
  });
}

}  // namespace

std::vector<Product> ProductsOfGpt2(int64_t layers, int64_t width, int64_t vocabulary,
                                    int64_t tokens) {
  std::vector<Product> products;
  const auto weight = [&](int64_t in, int64_t out, int64_t times) {
    products.push_back({tokens, out, in, times});
    products.push_back({tokens, in, out, times});
    products.push_back({in, out, tokens, times});
  };
  weight(width, 3 * width, layers);
  weight(width, width, layers);
  weight(width, 4 * width, layers);
  weight(4 * width, width, layers);
  weight(width, vocabulary, 1);
  return products;
}

double OneDnnRate(absl::Span<const Product> products, DType dtype, int threads) {
  double operations = 0;
  double seconds = 0;
  // Its own thread: OpenMP's number of threads is the calling thread's.
  std::thread([&] {
    omp_set_num_threads(threads);
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    for (const Product& product : products) {
      operations += 2.0 * product.m * product.n * product.k * product.times;
      seconds += SecondsOf(product, dtype, engine, stream) * product.times;
    }
  }).join();
  return operations / seconds;
}

double TriadRate(int threads) {
  constexpr int64_t kElements = int64_t{1} << 26;
  constexpr int64_t kTile = int64_t{1} << 16;
  std::vector<float> a(kElements), b(kElements, 1.0f), c(kElements, 2.0f);
  ThreadPool pool(threads);
  const double seconds = BestSeconds([&] {
    pool.For(kElements / kTile, [&](int64_t tile) {
      for (int64_t i = tile * kTile; i < (tile + 1) * kTile; ++i) a[i] = b[i] + 3.0f * c[i];
    });
  });
  return 12.0 * kElements / seconds;
}

double CopyRate() {
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes);
  return kBytes / BestSeconds([&] { std::memcpy(to.data(), from.data(), kBytes); });
}

}  // namespace tessera
