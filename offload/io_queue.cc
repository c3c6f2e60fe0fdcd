#include "offload/io_queue.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "offload/tier.h"

namespace tessera {
namespace {

// Before Linux 5.6 a ring takes neither this question nor the operations.
bool ReadsAndWrites(io_uring* ring) {
  const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe_ring(ring), &io_uring_free_probe);
  return probe != nullptr && io_uring_opcode_supported(probe.get(), IORING_OP_READ) != 0 &&
         io_uring_opcode_supported(probe.get(), IORING_OP_WRITE) != 0;
}

}  // namespace

struct IoQueue::Ring {
  io_uring ring = {};
  int error = -io_uring_queue_init(kDepth, &ring, 0);

  Ring() {
    if (error != 0 || ReadsAndWrites(&ring)) return;
    io_uring_queue_exit(&ring);
    error = EOPNOTSUPP;
  }
  ~Ring() {
    if (error == 0) io_uring_queue_exit(&ring);
  }
};

IoQueue::IoQueue(int descriptor, Direction direction, int64_t alignment)
    : descriptor_(descriptor), direction_(direction), alignment_(alignment), requests_(kDepth) {
  ring_ = std::make_unique<Ring>();
  const int error = ring_->error;
  if (error == 0) return;
  ring_ = nullptr;
  note_ = absl::StrCat("io_uring cannot be used (", std::strerror(error), ", errno ", error,
                       "), so one request at a time is in flight");
}

IoQueue::~IoQueue() = default;

absl::Status IoQueue::Move(absl::Span<const IoRange> ranges) {
  return ring_ != nullptr ? MoveInRing(ranges) : MoveOneByOne(ranges);
}

absl::Status IoQueue::Failure(int error, const IoRange& range) const {
  return absl::UnavailableError(absl::StrCat(
      direction_ == Direction::kRead ? "reading " : "writing ", range.bytes, " bytes at offset ",
      range.offset, " failed: ", std::strerror(error), " (errno ", error, ")"));
}

absl::Status IoQueue::Advance(int64_t result, IoRange* rest) const {
  if (result == -EINTR || result == -EAGAIN) return absl::OkStatus();
  if (result < 0) return Failure(static_cast<int>(-result), *rest);
  if (result < rest->bytes && result < alignment_) {
    return absl::DataLossError(
        absl::StrCat(direction_ == Direction::kRead ? "reading " : "writing ", rest->bytes,
                     " bytes at offset ", rest->offset, " ended after ", result,
                     ": something has cut the file, or its disk is full"));
  }
  // Direct I/O goes on from where a page starts.
  const int64_t moved = result >= rest->bytes ? rest->bytes : result / alignment_ * alignment_;
  rest->memory += moved;
  rest->offset += moved;
  rest->bytes -= moved;
  return absl::OkStatus();
}

absl::Status IoQueue::MoveInRing(absl::Span<const IoRange> ranges) {
  io_uring* const ring = &ring_->ring;
  size_t range = 0;   // the first from which something is left to ask for
  int64_t asked = 0;  // of its bytes
  int in_flight = 0;
  absl::Status status;
  const auto submit = [&](Request* request) {
    io_uring_sqe* const entry = io_uring_get_sqe(ring);
    TESSERA_CHECK(entry != nullptr, "more requests than the ring holds");
    const IoRange& rest = request->rest;
    const auto bytes = static_cast<unsigned>(RoundedUp(rest.bytes, alignment_));
    if (direction_ == Direction::kRead) {
      io_uring_prep_read(entry, descriptor_, rest.memory, bytes,
                         static_cast<uint64_t>(rest.offset));
    } else {
      io_uring_prep_write(entry, descriptor_, rest.memory, bytes,
                          static_cast<uint64_t>(rest.offset));
    }
    io_uring_sqe_set_data(entry, request);
    request->in_flight = true;
    ++in_flight;
  };
  while (true) {
    for (Request& request : requests_) {
      while (range < ranges.size() && asked == ranges[range].bytes) {
        ++range;
        asked = 0;
      }
      if (!status.ok() || range == ranges.size()) break;
      if (request.in_flight) continue;
      const IoRange& whole = ranges[range];
      const int64_t bytes = std::min(kBlockBytes, whole.bytes - asked);
      request.rest = {whole.memory + asked, whole.offset + asked, bytes};
      asked += bytes;
      submit(&request);
    }
    if (in_flight == 0) return status;
    // After a failure too, what is in flight is awaited: it uses the caller's memory.
    const int error = -io_uring_submit_and_wait(ring, 1);
    if (error > 0 && error != EINTR && error != EAGAIN && error != EBUSY) {
      TESSERA_CHECK(false, absl::StrCat("io_uring_enter: ", std::strerror(error)));
    }
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(ring, &done) == 0) {
      auto* const request = static_cast<Request*>(io_uring_cqe_get_data(done));
      const int result = done->res;
      io_uring_cqe_seen(ring, done);
      request->in_flight = false;
      --in_flight;
      const absl::Status outcome = Advance(result, &request->rest);
      if (status.ok()) status = outcome;
      if (status.ok() && request->rest.bytes > 0) submit(request);
    }
  }
}

absl::Status IoQueue::MoveOneByOne(absl::Span<const IoRange> ranges) {
  for (IoRange rest : ranges) {
    while (rest.bytes > 0) {
      const int64_t block = std::min(kBlockBytes, rest.bytes);
      const auto bytes = static_cast<size_t>(RoundedUp(block, alignment_));
      const ssize_t result = direction_ == Direction::kRead
                                 ? pread(descriptor_, rest.memory, bytes, rest.offset)
                                 : pwrite(descriptor_, rest.memory, bytes, rest.offset);
      IoRange request = {rest.memory, rest.offset, block};
      TESSERA_RETURN_IF_ERROR(Advance(result < 0 ? -errno : result, &request));
      const int64_t moved = request.offset - rest.offset;
      rest = {rest.memory + moved, rest.offset + moved, rest.bytes - moved};
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
