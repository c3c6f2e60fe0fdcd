#ifndef TESSERA_CORE_CUDA_LANE_H_
#define TESSERA_CORE_CUDA_LANE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "core/device.h"

namespace tessera {

// What a kernel found wrong with its input, for the host to report: the first of a
// run, written by the kernel into pinned memory of the host.
struct CudaFault {
  enum Kind : int32_t { kNone, kTokenOutOfRange, kTargetOutOfRange };

  int32_t kind = kNone;
  int32_t value = 0;     // what was found
  int64_t position = 0;  // its element
  int64_t limit = 0;     // values from 0 to below this are right
};

// A stream, as kernels and collectives see it.
class CudaLane : public Lane {
 public:
  Backend backend() const final { return Backend::kCuda; }

  virtual cudaStream_t stream() const = 0;
  virtual CudaFault* fault() const = 0;

  // What UseLibraryWorkspace gave; null in lanes that do not compute.
  virtual std::byte* library_workspace() const = 0;

  // What kernels keep of libraries for this lane, from their first use to its end.
  std::shared_ptr<void>& library_state() { return library_state_; }

 private:
  std::shared_ptr<void> library_state_;
};

inline CudaLane& CudaLaneOf(Lane& lane) { return static_cast<CudaLane&>(lane); }

// A runtime call's failure as a status: what was called, CUDA's words for why, and
// the remedy where there is a known one. OK for cudaSuccess.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

}  // namespace tessera

#endif  // TESSERA_CORE_CUDA_LANE_H_
