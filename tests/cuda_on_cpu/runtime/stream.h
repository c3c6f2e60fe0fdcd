#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda_on_cpu/crew.h"

namespace tessera::cuda_on_cpu {

// An address that stands for an order, for ThreadSanitizer.
using Token = std::shared_ptr<char>;
inline Token NewToken() { return std::make_shared<char>(); }

struct Stream;

// A point in a stream: reached when that many of its operations are done.
struct Position {
  std::shared_ptr<Stream> stream;  // null: reached
  uint64_t operations = 0;
  Token token;  // released when it is reached

  bool Reached() const;
};

struct Operation {
  const char* name = "";
  // What must be reached beside the operations before it in its stream.
  std::vector<Position> after = {};
  std::function<void()> run = nullptr;  // null: nothing to do
  // Null: done when `run` returns. Else a started operation is done when this holds.
  std::function<bool()> done = nullptr;
  // `run` is a host function: for a thread of the host, without the runtime's lock.
  bool on_host_thread = false;

  bool started = false;
  Token enqueued = nullptr;   // released by the thread that enqueued it
  Token reached = nullptr;    // released by the stream when it is done
  Token elsewhere = nullptr;  // released by whoever does a part of it elsewhere
};

struct Stream {
  int device = 0;
  int number = 0;
  bool waits_for_default = true;
  std::deque<Operation> queue;
  uint64_t enqueued = 0;
  uint64_t finished = 0;
  Token last = nullptr;  // of the operation enqueued last
  uint64_t preference = 0;
  Crew* crew = nullptr;
};

inline bool Position::Reached() const {
  return stream == nullptr || stream->finished >= operations;
}

// With streams in the registry until they are destroyed.
std::shared_ptr<Stream> CreateStream(int device, bool waits_for_default);
void DestroyStream(const std::shared_ptr<Stream>& stream);
std::vector<std::shared_ptr<Stream>>& Streams();
// CUDA's "legacy" stream 0 of a device.
std::shared_ptr<Stream> DefaultStream(int device);

// The point after all that `stream` has been given so far.
Position Tail(const std::shared_ptr<Stream>& stream);
// After `operation`, which also waits for the default stream where CUDA says so.
Position Enqueue(const std::shared_ptr<Stream>& stream, Operation operation);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_H_
