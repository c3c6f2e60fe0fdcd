#include "tests/cuda_on_cpu/runtime/stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {

std::vector<std::shared_ptr<Stream>>& Streams() {
  static auto& streams = *new std::vector<std::shared_ptr<Stream>>;
  return streams;
}

std::shared_ptr<Stream> CreateStream(int device, bool waits_for_default) {
  static int created = 0;
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->number = created++;
  stream->waits_for_default = waits_for_default;
  stream->preference = Random();
  stream->crew = &Crew::Take();
  Streams().push_back(stream);
  return stream;
}

void DestroyStream(const std::shared_ptr<Stream>& stream) {
  std::erase(Streams(), stream);
  Crew::GiveBack(*stream->crew);
}

std::shared_ptr<Stream> DefaultStream(int device) {
  static auto& streams = *new std::map<int, std::shared_ptr<Stream>>;
  auto& stream = streams[device];
  if (stream == nullptr) stream = CreateStream(device, false);
  return stream;
}

Position Tail(const std::shared_ptr<Stream>& stream) {
  return {.stream = stream, .operations = stream->enqueued, .token = stream->last};
}

Position Enqueue(const std::shared_ptr<Stream>& stream, Operation operation) {
  const auto after_all_of = [&operation](const std::shared_ptr<Stream>& other) {
    if (other->finished < other->enqueued) operation.after.push_back(Tail(other));
  };
  const std::shared_ptr<Stream> default_stream = DefaultStream(stream->device);
  if (stream == default_stream) {
    for (const auto& other : Streams()) {
      if (other->device == stream->device && other->waits_for_default) after_all_of(other);
    }
  } else if (stream->waits_for_default) {
    after_all_of(default_stream);
  }
  operation.enqueued = NewToken();
  operation.reached = NewToken();
  if (operation.elsewhere == nullptr) operation.elsewhere = NewToken();
  TsanRelease(operation.enqueued.get());
  stream->last = operation.reached;
  stream->queue.push_back(std::move(operation));
  ++stream->enqueued;
  StateChanged();
  return Tail(stream);
}

}  // namespace tessera::cuda_on_cpu
