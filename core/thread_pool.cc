#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>

#ifdef __SANITIZE_THREAD__
// The fences in Eigen's pool only decide who sleeps: what a task reads is handed
// over through atomics, which the sanitizer does follow.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

#include <unsupported/Eigen/CXX11/ThreadPool>

namespace tessera {

struct ThreadPool::Workers {
  // Ranks may share cores: an idle worker sleeps at once instead of spinning.
  explicit Workers(int threads) : pool(threads, /*allow_spinning=*/false) {}
  Eigen::ThreadPool pool;
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {
  if (threads_ > 1) workers_ = std::make_unique<Workers>(threads_ - 1);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::For(int64_t tiles, const std::function<void(int64_t)>& body) {
  const int64_t helpers = std::min<int64_t>(threads_ - 1, tiles - 1);
  if (helpers <= 0) {
    for (int64_t tile = 0; tile < tiles; ++tile) body(tile);
    return;
  }
  std::atomic<int64_t> next = 0;
  const auto drain = [&] {
    for (int64_t tile = next++; tile < tiles; tile = next++) body(tile);
  };
  Eigen::Barrier done(static_cast<unsigned int>(helpers));
  for (int64_t i = 0; i < helpers; ++i) {
    workers_->pool.Schedule([&] {
      drain();
      done.Notify();
    });
  }
  drain();
  done.Wait();
}

}  // namespace tessera
