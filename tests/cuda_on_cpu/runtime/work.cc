#include "tests/cuda_on_cpu/runtime/work.h"

#include <algorithm>
#include <utility>

#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/host_function.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/turns.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// The closures of an operation are destroyed as the stream too.
void TakeOff(Stream& stream) {
  TsanRelease(stream.queue.front().reached.get());
  stream.queue.pop_front();
  ++stream.finished;
  StateChanged();
}

void Start(Stream& stream) {
  Operation& operation = stream.queue.front();
  operation.started = true;
  TsanAcquire(operation.enqueued.get());
  for (const Position& position : operation.after) {
    if (position.token != nullptr) TsanAcquire(position.token.get());
  }
  if (operation.on_host_thread) {
    TsanRelease(operation.elsewhere.get());
    return;
  }
  OpenDeviceMemory();
  if (operation.run != nullptr) operation.run();
  operation.run = nullptr;
  CheckGuards(operation.name);
  if (operation.done == nullptr) TakeOff(stream);
}

// Prefers some streams for a while, or none, so that one may run far ahead.
const std::shared_ptr<Stream>& Pick(const std::vector<std::shared_ptr<Stream>>& startable) {
  const uint64_t kind = Seed() % 3;
  const auto& any = startable[RandomBelow(static_cast<uint32_t>(startable.size()))];
  if (kind == 0) return any;
  if (RandomBelow(32) == 0) {
    for (const auto& stream : startable) stream->preference = Random();
  }
  return *std::max_element(startable.begin(), startable.end(), [](const auto& a, const auto& b) {
    return a->preference < b->preference;
  });
}

}  // namespace

std::vector<std::shared_ptr<Stream>> StartableStreams() {
  std::vector<std::shared_ptr<Stream>> startable;
  for (bool changed = true; changed;) {
    changed = false;
    startable.clear();
    for (const auto& stream : Streams()) {
      if (stream->queue.empty()) continue;
      const Operation& next = stream->queue.front();
      if (!next.started) {
        if (std::all_of(next.after.begin(), next.after.end(),
                        [](const Position& position) { return position.Reached(); })) {
          startable.push_back(stream);
        }
      } else if (next.done == nullptr || next.done()) {
        stream->crew->Run([&] {
          TsanAcquire(next.elsewhere.get());
          TakeOff(*stream);
        });
        changed = true;
      }
    }
  }
  return startable;
}

void RunOne(const std::vector<std::shared_ptr<Stream>>& startable,
            std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Stream> stream = Pick(startable);
  stream->crew->Run([&] { Start(*stream); });
  if (!stream->queue.empty() && stream->queue.front().started &&
      stream->queue.front().on_host_thread) {
    StartHostFunction(stream, lock);
  }
}

std::string DescribeStreams() {
  std::string text;
  for (const auto& stream : Streams()) {
    if (stream->queue.empty()) continue;
    const Operation& next = stream->queue.front();
    text += "\n  device " + std::to_string(stream->device) + ", stream " +
            std::to_string(stream->number) + ": " + next.name +
            (next.started ? " has started" : " waits for an event") + ", " +
            std::to_string(stream->queue.size() - 1) + " more behind it";
  }
  return text;
}

}  // namespace tessera::cuda_on_cpu
