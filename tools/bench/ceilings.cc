#include "tools/bench/ceilings.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "tools/bench/spread.h"

namespace tessera {
namespace {

template <typename Work>
double SecondsOf(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return SecondsSince(start);
}

}  // namespace

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
  return kBytes / SpreadOf(std::move(seconds)).median;
}

Gpt2Config SmallestGpt2() {
  Gpt2Config config;
  config.layers = config.heads = 12;
  config.width = 768;
  config.context = 256;
  config.vocabulary = 50257;
  return config;
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
