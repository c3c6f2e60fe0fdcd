#include "tools/bench/direct_io.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "tools/bench/spread.h"

namespace tessera {
namespace {

class Ring final : public DirectIo {
 public:
  Ring(int file, int64_t bytes, int64_t block, int depth, std::byte* memory, int64_t memory_bytes)
      : file_(file),
        bytes_(bytes),
        block_(block),
        depth_(depth),
        memory_(memory),
        memory_bytes_(memory_bytes) {
    ready_ = io_uring_queue_init(depth, &ring_, 0) == 0;
  }
  ~Ring() override {
    if (ready_) io_uring_queue_exit(&ring_);
    close(file_);
  }

  bool ready() const { return ready_; }

  absl::StatusOr<double> Seconds(bool write) override {
    const auto start = std::chrono::steady_clock::now();
    int64_t asked = 0;
    int in_flight = 0;
    const auto ask = [&](int slot) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      // Block after block of the memory, which has more of them than are in flight.
      std::byte* const memory = memory_ + asked % memory_bytes_;
      if (write) {
        io_uring_prep_write(entry, file_, memory, static_cast<unsigned>(block_), asked);
      } else {
        io_uring_prep_read(entry, file_, memory, static_cast<unsigned>(block_), asked);
      }
      io_uring_sqe_set_data64(entry, slot);
      asked += block_;
      ++in_flight;
    };
    for (int slot = 0; slot < depth_ && asked < bytes_; ++slot) ask(slot);
    while (in_flight > 0) {
      io_uring_submit_and_wait(&ring_, 1);
      io_uring_cqe* done = nullptr;
      while (io_uring_peek_cqe(&ring_, &done) == 0) {
        const auto slot = static_cast<int>(io_uring_cqe_get_data64(done));
        const int result = done->res;
        io_uring_cqe_seen(&ring_, done);
        --in_flight;
        if (result != block_) {
          return absl::UnavailableError(absl::StrCat("direct I/O moved ", result, " bytes"));
        }
        if (asked < bytes_) ask(slot);
      }
    }
    return SecondsSince(start);
  }

 private:
  const int file_;
  const int64_t bytes_, block_;
  const int depth_;
  std::byte* const memory_;
  const int64_t memory_bytes_;
  bool ready_ = false;
  io_uring ring_ = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<DirectIo>> DirectIo::Create(const std::string& folder, int64_t bytes,
                                                           int64_t block, int depth,
                                                           std::byte* memory,
                                                           int64_t memory_bytes) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file < 0 || fallocate(file, 0, 0, bytes) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(folder, ": no file for direct I/O"));
  }
  auto ring = std::make_unique<Ring>(file, bytes, block, depth, memory, memory_bytes);
  if (!ring->ready()) return absl::UnavailableError("io_uring cannot be used here");
  return ring;
}

}  // namespace tessera
