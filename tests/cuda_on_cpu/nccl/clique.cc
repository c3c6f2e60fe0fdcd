#include "tests/cuda_on_cpu/nccl/clique.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/cuda_on_cpu/nccl/data.h"
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// NCCL may write from when a rank comes on; what lies there before is gone.
void SpoilReceived(const Part& part, int ranks) {
  if (part.receive == nullptr) return;
  const char* receive = static_cast<const char*>(part.receive);
  const char* send = static_cast<const char*>(part.send);
  const size_t bytes = part.ReceiveBytes(ranks);
  const bool in_place =
      send != nullptr && send < receive + bytes && receive < send + part.SendBytes();
  if (!in_place) std::memset(part.receive, 0xFF, bytes);
}

void CopyBytes(void* to, const void* from, size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

void Finish(Part& part) {
  part.done = true;
  StateChanged();
}

}  // namespace

const char* NameOf(Collective collective) {
  constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclBroadcast", "ncclSend",
                                    "ncclRecv"};
  return kNames[static_cast<int>(collective)];
}

size_t Part::SendBytes() const { return count * ElementBytes(type); }

size_t Part::ReceiveBytes(int ranks) const {
  return SendBytes() * (collective == Collective::kAllGather ? ranks : 1);
}

void Clique::Join(int rank, int device) {
  if (rank < 0 || rank >= ranks() || devices_[rank] >= 0) Report("two ranks %d join", rank);
  devices_[rank] = device;
  ++joined_;
  StateChanged();
}

bool Clique::SharesDevices() const {
  return std::set<int>(devices_.begin(), devices_.end()).size() < devices_.size();
}

void Clique::Post(int rank, const PartPointer& part) {
  TsanRelease(order_.get());
  TsanAcquire(order_.get());
  if (failed_ || aborted_[rank]) {
    Finish(*part);
    return;
  }
  SpoilReceived(*part, ranks());
  posted_.push_back(part);
  if (part->collective == Collective::kSend) {
    const Channel channel(rank, part->peer);
    sends_[channel].push_back(part);
    TryChannel(channel);
  } else if (part->collective == Collective::kReceive) {
    const Channel channel(part->peer, rank);
    receives_[channel].push_back(part);
    TryChannel(channel);
  } else {
    queues_[rank].push_back(part);
    TryCollectives();
  }
  std::erase_if(posted_, [](const PartPointer& posted) { return posted->done; });
  TsanRelease(order_.get());
}

void Clique::TryChannel(const Channel& channel) {
  auto& sends = sends_[channel];
  auto& receives = receives_[channel];
  while (!sends.empty() && !receives.empty()) {
    Part& send = *sends.front();
    Part& receive = *receives.front();
    if (send.SendBytes() != receive.SendBytes()) {
      Report("rank %d sends %zu bytes to rank %d, which receives %zu", channel.first,
             send.SendBytes(), channel.second, receive.SendBytes());
    }
    CopyBytes(receive.receive, send.send, send.SendBytes());
    Finish(send);
    Finish(receive);
    sends.pop_front();
    receives.pop_front();
  }
}

void Clique::TryCollectives() {
  while (std::none_of(queues_.begin(), queues_.end(),
                      [](const auto& queue) { return queue.empty(); })) {
    std::vector<PartPointer> parts;
    for (auto& queue : queues_) {
      parts.push_back(queue.front());
      queue.pop_front();
    }
    CheckAlike(parts);
    Perform(parts);
    for (const PartPointer& part : parts) Finish(*part);
  }
}

void Clique::CheckAlike(const std::vector<PartPointer>& parts) const {
  const Part& first = *parts[0];
  for (int rank = 1; rank < ranks(); ++rank) {
    const Part& other = *parts[rank];
    if (other.collective == first.collective && other.count == first.count &&
        other.type == first.type && other.operation == first.operation &&
        other.peer == first.peer) {
      continue;
    }
    Report(
        "ranks call different collectives: rank 0 %s of %zu elements of type %d with root %d, "
        "rank %d %s of %zu elements of type %d with root %d",
        NameOf(first.collective), first.count, static_cast<int>(first.type), first.peer, rank,
        NameOf(other.collective), other.count, static_cast<int>(other.type), other.peer);
  }
}

void Clique::Perform(const std::vector<PartPointer>& parts) const {
  const Part& first = *parts[0];
  const size_t bytes = first.SendBytes();
  switch (first.collective) {
    case Collective::kAllReduce: {
      std::vector<const void*> sources;
      for (const PartPointer& part : parts) sources.push_back(part->send);
      const auto sum = Reduce(sources, first.count, first.type, first.operation);
      for (const PartPointer& part : parts) CopyBytes(part->receive, sum.data(), bytes);
      break;
    }
    case Collective::kAllGather:
      for (const PartPointer& part : parts) {
        char* to = static_cast<char*>(part->receive);
        for (const PartPointer& from : parts) {
          CopyBytes(to, from->send, bytes);
          to += bytes;
        }
      }
      break;
    default:
      for (const PartPointer& part : parts) {
        CopyBytes(part->receive, parts[first.peer]->send, bytes);
      }
  }
}

void Clique::Abort(int rank) {
  aborted_[rank] = true;
  if (Pretended().abort_reaches_peers) failed_ = true;
  const auto forget = [](std::deque<PartPointer>& parts) {
    for (const PartPointer& part : parts) Finish(*part);
    parts.clear();
  };
  for (int other = 0; other < ranks(); ++other) {
    if (failed_ || aborted_[other]) forget(queues_[other]);
  }
  for (auto& [channel, parts] : sends_) {
    if (failed_ || aborted_[channel.first]) forget(parts);
  }
  for (auto& [channel, parts] : receives_) {
    if (failed_ || aborted_[channel.second]) forget(parts);
  }
  StateChanged();
}

}  // namespace tessera::cuda_on_cpu
