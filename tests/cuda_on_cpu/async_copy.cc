#include "tests/cuda_on_cpu/async_copy.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/cuda_on_cpu/block_scheduler.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kBytes = 16;

struct Copy {
  void* destination;
  const void* source;
  int source_bytes;
  bool landed;
};

// One thread's copies since its queue was last empty.
struct Queue {
  std::vector<Copy> copies;
  std::vector<size_t> group_ends;
};

auto& queues = *new std::vector<Queue>(kMaxThreads);

// memcpy is what the sanitizers see of it, as done by the current thread.
void Land(Copy& copy) {
  if (copy.landed) return;
  copy.landed = true;
  std::memcpy(copy.destination, copy.source, copy.source_bytes);
  std::memset(static_cast<char*>(copy.destination) + copy.source_bytes, 0,
              kBytes - copy.source_bytes);
}

bool Misaligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kBytes != 0; }

}  // namespace

void StartCopy(void* destination, const void* source, int source_bytes) {
  if (Misaligned(destination) || Misaligned(source)) Report("cp.async of misaligned addresses");
  if (source_bytes < 0 || source_bytes > kBytes) Report("cp.async of %d bytes", source_bytes);
  Queue& queue = queues[CurrentThread()];
  {
    const AsTsanThread as_harness(HarnessTsanThread());
    queue.copies.push_back({destination, source, source_bytes, false});
  }
  if (RandomBelow(2) == 0) Land(queue.copies.back());
}

void CommitCopyGroup() {
  const AsTsanThread as_harness(HarnessTsanThread());
  Queue& queue = queues[CurrentThread()];
  queue.group_ends.push_back(queue.copies.size());
}

void WaitForCopyGroups(int pending) {
  Queue& queue = queues[CurrentThread()];
  const auto groups = static_cast<int>(queue.group_ends.size());
  if (groups <= pending) return;
  const size_t end = queue.group_ends[groups - pending - 1];
  for (size_t i = 0; i < end; ++i) Land(queue.copies[i]);
  if (end == queue.copies.size()) {
    queue.copies.clear();
    queue.group_ends.clear();
  }
}

void ForgetCopies() {
  for (Queue& queue : queues) {
    queue.copies.clear();
    queue.group_ends.clear();
  }
}

}  // namespace tessera::cuda_on_cpu
