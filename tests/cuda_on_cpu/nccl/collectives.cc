#include <nccl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/nccl/clique.h"
#include "tests/cuda_on_cpu/nccl/communicator.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

namespace tessera::cuda_on_cpu {
namespace {

struct Member {
  ncclComm* communicator;
  cudaStream_t stream;
  PartPointer part;
};

// Of the calling thread.
struct Group {
  int depth = 0;
  std::vector<Member> members;
  std::vector<ncclComm*> joins;
};
thread_local Group group;

// What a group has for one communicator and stream starts together and ends together.
void EnqueueTogether(ncclComm* communicator, cudaStream_t handle, std::vector<PartPointer> parts) {
  const auto clique = communicator->clique;
  const int rank = communicator->rank;
  const char* name = NameOf(parts[0]->collective);
  const int device = std::exchange(CurrentDevice(), communicator->device);
  communicator->last =
      Enqueue(StreamOf(handle, name),
              {.name = name,
               .run =
                   [clique, rank, parts] {
                     for (const PartPointer& part : parts) clique->Post(rank, part);
                   },
               .done =
                   [parts] {
                     return std::all_of(parts.begin(), parts.end(),
                                        [](const PartPointer& part) { return part->done; });
                   },
               .elsewhere = clique->order()});
  CurrentDevice() = device;
}

void EnqueueGroup() {
  std::vector<Member> members = std::exchange(group.members, {});
  while (!members.empty()) {
    ncclComm* const communicator = members[0].communicator;
    cudaStream_t const stream = members[0].stream;
    std::vector<PartPointer> parts;
    std::erase_if(members, [&](const Member& member) {
      const bool together = member.communicator == communicator && member.stream == stream;
      if (together) parts.push_back(member.part);
      return together;
    });
    EnqueueTogether(communicator, stream, std::move(parts));
  }
}

ncclResult_t Add(ncclComm* communicator, cudaStream_t stream, const Part& part) {
  const char* name = NameOf(part.collective);
  const Clique& clique = *communicator->clique;
  if (!clique.complete()) Report("%s before the communicator is ready", name);
  if (part.peer < 0 || part.peer >= clique.ranks()) return ncclInvalidArgument;
  if (group.depth == 0 && CurrentDevice() != communicator->device) {
    Report("%s of a communicator of device %d, and the current device is %d", name,
           communicator->device, CurrentDevice());
  }
  if (part.count > 0 && part.send != nullptr) {
    CheckDeviceCanUse(part.send, part.SendBytes(), communicator->device, name);
  }
  if (part.count > 0 && part.receive != nullptr) {
    CheckDeviceCanUse(part.receive, part.ReceiveBytes(clique.ranks()), communicator->device, name);
  }
  group.members.push_back({communicator, stream, std::make_shared<Part>(part)});
  if (group.depth == 0) EnqueueGroup();
  return ncclSuccess;
}

}  // namespace

bool InGroup() { return group.depth > 0; }
void DeferJoin(ncclComm* communicator) { group.joins.push_back(communicator); }

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const ApiCall call("ncclGroupEnd");
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  if (const ncclResult_t result = FinishJoins(std::exchange(group.joins, {}));
      result != ncclSuccess) {
    return result;
  }
  EnqueueGroup();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  const ApiCall call("ncclAllReduce");
  return Add(communicator, stream,
             {.collective = Collective::kAllReduce,
              .send = send,
              .receive = receive,
              .count = count,
              .type = type,
              .operation = operation,
              .peer = 0});
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  const ApiCall call("ncclAllGather");
  return Add(communicator, stream,
             {.collective = Collective::kAllGather,
              .send = send,
              .receive = receive,
              .count = count,
              .type = type,
              .operation = ncclSum,
              .peer = 0});
}

// Only the root sends.
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  const ApiCall call("ncclBroadcast");
  return Add(communicator, stream,
             {.collective = Collective::kBroadcast,
              .send = communicator->rank == root ? send : nullptr,
              .receive = receive,
              .count = count,
              .type = type,
              .operation = ncclSum,
              .peer = root});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  const ApiCall call("ncclSend");
  return Add(communicator, stream,
             {.collective = Collective::kSend,
              .send = send,
              .receive = nullptr,
              .count = count,
              .type = type,
              .operation = ncclSum,
              .peer = peer});
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  const ApiCall call("ncclRecv");
  return Add(communicator, stream,
             {.collective = Collective::kReceive,
              .send = nullptr,
              .receive = receive,
              .count = count,
              .type = type,
              .operation = ncclSum,
              .peer = peer});
}
