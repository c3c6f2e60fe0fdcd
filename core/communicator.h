#ifndef TESSERA_CORE_COMMUNICATOR_H_
#define TESSERA_CORE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

// Collectives among the ranks of a world. Every rank makes the same calls in the
// same order, from one thread at a time (the communication lane, or the owner
// while the lanes are idle). A call blocks until this rank's part is done: its
// output is complete and its input may be overwritten.
//
// Nothing here adds floating-point numbers: the order of such a sum is the
// plan's business, never a library's.
//
// Errors: Cancelled("rank R: ...") once any rank has called Abort; Internal when
// ranks made different calls, where the implementation can see that.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Every rank contributes `own` (`bytes` long); `out` (size() * bytes) gets all
  // contributions in order of rank. `own` may be out + rank() * bytes.
  virtual absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) = 0;

  // Sends the `bytes` at send + r * stride to every other rank r, and receives
  // theirs into `out`, densely, in order of rank, without a slot for this rank
  // itself: (size() - 1) * bytes. The own piece stays where it is.
  virtual absl::Status AllToAll(const std::byte* send, int64_t stride, std::byte* out,
                                int64_t bytes) = 0;

  // `data` of rank `root` to everybody.
  virtual absl::Status Broadcast(std::byte* data, int64_t bytes, int root) = 0;

  // Element-wise wrap-around sum: exact, so its order does not matter.
  virtual absl::Status AllReduceSum(absl::Span<int64_t> values) = 0;

  virtual absl::Status Barrier() = 0;

  // Makes every present and later call on every rank return Cancelled with this
  // status' message and this rank's number. Callable from any thread, at any
  // time; the first call wins.
  virtual void Abort(const absl::Status& status) = 0;

  // OK as long as no rank is known to have called Abort; then what calls return.
  // Callable from any thread, at any time.
  virtual absl::Status Check() = 0;

  // Bytes that this rank has handed over to other ranks so far.
  virtual int64_t bytes_sent() const = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COMMUNICATOR_H_
