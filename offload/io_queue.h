#ifndef TESSERA_OFFLOAD_IO_QUEUE_H_
#define TESSERA_OFFLOAD_IO_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

// Bytes of a file and where they are in memory.
struct IoRange {
  std::byte* memory = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// One direction of a file's input and output. Ranges are cut into blocks, of which
// some are in flight at once, through io_uring where the system lets us, else one by
// one. Whole multiples of `alignment` are asked for, wherever a request begins.
class IoQueue {
 public:
  enum class Direction : uint8_t { kRead, kWrite };
  static constexpr int64_t kBlockBytes = int64_t{512} << 10;
  static constexpr int kDepth = 16;

  // `descriptor` stays the caller's. Never fails: without io_uring, note() says why.
  IoQueue(int descriptor, Direction direction, int64_t alignment);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  // Moves every range whole and returns once nothing is in flight. One thread at a time.
  // DataLoss where the file ends early, Unavailable for any other failure; the message
  // has offset, size and errno.
  absl::Status Move(absl::Span<const IoRange> ranges);

  // Why io_uring is not used; empty if it is.
  const std::string& note() const { return note_; }

 private:
  struct Ring;
  struct Request {
    IoRange rest;
    bool in_flight = false;
  };

  absl::Status MoveInRing(absl::Span<const IoRange> ranges);
  absl::Status MoveOneByOne(absl::Span<const IoRange> ranges);
  // Takes note of what a request for `rest` came to: a count, or a negative errno.
  absl::Status Advance(int64_t result, IoRange* rest) const;
  absl::Status Failure(int error, const IoRange& range) const;

  const int descriptor_;
  const Direction direction_;
  const int64_t alignment_;
  std::string note_;
  std::unique_ptr<Ring> ring_;
  std::vector<Request> requests_;
};

}  // namespace tessera

#endif  // TESSERA_OFFLOAD_IO_QUEUE_H_
