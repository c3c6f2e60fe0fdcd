#include "tools/bench/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#include "kernels/cpu/openmp_threads.h"

namespace tessera {
namespace {

template <typename Work>
double SecondsOf(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct OneDnnProducts::Prepared {
  struct One {
    dnnl::matmul matmul;
    dnnl::memory a, b, c;
    int64_t times;

    double Seconds(dnnl::stream& stream) {
      return SecondsOf([&] {
        matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
        stream.wait();
      });
    }
  };
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<One> products;
};

OneDnnProducts::OneDnnProducts(absl::Span<const Product> products, DType dtype, int threads)
    : threads_(threads), prepared_(std::make_unique<Prepared>()) {
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
    omp_set_num_threads(threads_);
    for (Prepared::One& one : prepared_->products) {
      seconds += one.Seconds(prepared_->stream) * one.times;
    }
  }).join();
  return seconds;
}

Triad::Triad(int threads)
    : a_(int64_t{1} << 26), b_(a_.size(), 1.0f), c_(a_.size(), 2.0f), pool_(threads) {}

double Triad::Seconds() {
  constexpr int64_t kTile = int64_t{1} << 16;
  return SecondsOf([&] {
    pool_.For(static_cast<int64_t>(a_.size()) / kTile, [&](int64_t tile) {
      for (int64_t i = tile * kTile; i < (tile + 1) * kTile; ++i) a_[i] = b_[i] + 3.0f * c_[i];
    });
  });
}

double CopyRate() {
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int kTries = 9;
  std::vector<char> from(kBytes, 1), to(kBytes);
  std::vector<double> seconds;
  seconds.reserve(kTries);
  for (int i = 0; i < kTries; ++i) {
    seconds.push_back(SecondsOf([&] { std::memcpy(to.data(), from.data(), kBytes); }));
  }
  std::sort(seconds.begin(), seconds.end());
  return kBytes / seconds[kTries / 2];
}

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

}  // namespace tessera
