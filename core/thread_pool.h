#ifndef TESSERA_CORE_THREAD_POOL_H_
#define TESSERA_CORE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace tessera {

// The threads inside one rank. Work is cut into tiles whose size does not
// depend on the number of threads, so results do not either.
class ThreadPool {
 public:
  // `threads` counts the caller of For: with 1, For runs everything itself.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return threads_; }

  // Runs body(tile) for every tile in [0, tiles), in no particular order, and
  // returns when all have ended. May be called by several threads at once, but
  // not from inside a body.
  void For(int64_t tiles, const std::function<void(int64_t)>& body);

 private:
  struct Workers;
  const int threads_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_THREAD_POOL_H_
