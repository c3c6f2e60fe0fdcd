#include "tests/cuda_on_cpu/nccl/communicator.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

namespace tessera::cuda_on_cpu {
namespace {

std::map<std::string, std::shared_ptr<Clique>>& Cliques() {
  static auto& cliques = *new std::map<std::string, std::shared_ptr<Clique>>;
  return cliques;
}

// Joins the clique of `id`, at once; who waits for the others is the caller's affair.
ncclResult_t Join(ncclComm_t* communicator, int ranks, const ncclUniqueId& id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (DeviceError() != cudaSuccess) return ncclUnhandledCudaError;
  auto& clique = Cliques()[std::string(id.internal, sizeof(id.internal))];
  if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
  if (clique->ranks() != ranks) {
    Report("rank %d joins %d ranks, and another %d", rank, ranks, clique->ranks());
  }
  clique->Join(rank, CurrentDevice());
  *communicator = new ncclComm{.clique = clique, .rank = rank, .device = CurrentDevice()};
  return ncclSuccess;
}

}  // namespace

ncclResult_t FinishJoins(const std::vector<ncclComm*>& communicators) {
  for (const ncclComm* communicator : communicators) {
    const Clique& clique = *communicator->clique;
    BlockUntil([&clique] { return clique.complete() || clique.failed(); }, "ncclCommInitRank");
    if (clique.failed()) return ncclRemoteError;
    if (clique.SharesDevices()) return ncclInvalidUsage;
  }
  return ncclSuccess;
}

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

// Good within the process: the ranks are its threads.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const ApiCall call("ncclGetUniqueId");
  static uint64_t made = 0;
  std::memset(id, 0, sizeof(*id));
  ++made;
  std::memcpy(id->internal, &made, sizeof(made));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(communicator, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const ApiCall call("ncclCommInitRank");
  if (const ncclResult_t result = Join(communicator, ranks, id, rank); result != ncclSuccess) {
    return result;
  }
  if (config != nullptr && config->blocking == 0) return ncclInProgress;
  if (InGroup()) {
    DeferJoin(*communicator);
    return ncclSuccess;
  }
  return FinishJoins({*communicator});
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const ApiCall call("ncclCommDestroy");
  WaitFor(communicator->last, "ncclCommDestroy");
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const ApiCall call("ncclCommFinalize");
  WaitFor(communicator->last, "ncclCommFinalize");
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const ApiCall call("ncclCommAbort");
  communicator->clique->Abort(communicator->rank);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const ApiCall call("ncclCommGetAsyncError");
  PollOnce();
  const Clique& clique = *communicator->clique;
  *error = clique.failed() ? ncclRemoteError : clique.complete() ? ncclSuccess : ncclInProgress;
  if (*error == ncclSuccess && clique.SharesDevices()) *error = ncclInvalidUsage;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->clique->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  *device = communicator->device;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t /*communicator*/) { return ""; }
