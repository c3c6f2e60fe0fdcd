#include "sharding/state_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

// Of the file, at once.
constexpr int64_t kMostBytes = 256 * kNvmeAlignment;

std::byte* NewPages() {
  void* const pages = std::aligned_alloc(kNvmeAlignment, kMostBytes);
  TESSERA_CHECK(pages != nullptr, "no memory for a few pages");
  return static_cast<std::byte*>(pages);
}

// Calls visit(page, pages, begin, end) for pieces of bytes [begin, end): whole pages
// from byte `page` of the file, as many bytes as `pages`, that hold [begin, end).
template <typename Visit>
absl::Status ForEachPiece(int64_t begin, int64_t end, Visit visit) {
  for (int64_t page = begin / kNvmeAlignment * kNvmeAlignment; page < end; page += kMostBytes) {
    const int64_t last = std::min(page + kMostBytes, end);
    TESSERA_RETURN_IF_ERROR(
        visit(page, RoundedUp(last - page, kNvmeAlignment), std::max(begin, page), last));
  }
  return absl::OkStatus();
}

}  // namespace

void StateMemory::Free::operator()(std::byte* pages) const { std::free(pages); }

StateMemory::StateMemory(const Plan& plan, int rank, Device& device, const Arenas& arenas)
    : plan_(plan),
      rank_(rank),
      device_(device),
      arenas_(arenas),
      pages_(arenas.nvme == nullptr ? nullptr : NewPages()) {}

int64_t StateMemory::FirstOf(const StatePart& part) const {
  return part.first + plan_.HeldFrom(part.role, part.unit, rank_);
}

ElementRange StateMemory::Held(Role role, int unit) const {
  ElementRange held = {std::numeric_limits<int64_t>::max(), 0};
  for (const StatePart& part : plan_.state) {
    if (part.role != role || part.unit != unit) continue;
    held.begin = std::min(held.begin, FirstOf(part));
    held.end = std::max(held.end, FirstOf(part) + part.elements);
  }
  return held.begin < held.end ? held : ElementRange{};
}

template <typename Visit>
absl::Status StateMemory::ForEachOverlap(Role role, int unit, int64_t first, int64_t count,
                                         Visit visit) const {
  for (const StatePart& part : plan_.state) {
    if (part.role != role || part.unit != unit) continue;
    const int64_t begin = std::max(first, FirstOf(part));
    const int64_t end = std::min(first + count, FirstOf(part) + part.elements);
    if (begin >= end) continue;
    TESSERA_RETURN_IF_ERROR(
        visit(plan_.buffers[part.buffer], begin - FirstOf(part), begin - first, end - begin));
  }
  return absl::OkStatus();
}

absl::Status StateMemory::Load(Role role, int unit, int64_t first, int64_t count, int64_t size,
                               void* values) const {
  return ForEachOverlap(role, unit, first, count,
                        [&](const Buffer& buffer, int64_t there, int64_t here, int64_t elements) {
                          return LoadBytes(buffer, there * size, elements * size,
                                           static_cast<std::byte*>(values) + here * size);
                        });
}

absl::Status StateMemory::Store(Role role, int unit, int64_t first, int64_t count, int64_t size,
                                const void* values) const {
  return ForEachOverlap(role, unit, first, count,
                        [&](const Buffer& buffer, int64_t there, int64_t here, int64_t elements) {
                          return StoreBytes(buffer, there * size, elements * size,
                                            static_cast<const std::byte*>(values) + here * size);
                        });
}

absl::Status StateMemory::LoadBytes(const Buffer& buffer, int64_t begin, int64_t bytes,
                                    std::byte* values) const {
  if (buffer.tier != Tier::kNvme) {
    return device_.CopyToHost(arenas_.Of(buffer.tier) + buffer.offset + begin, values, bytes);
  }
  return ForEachPiece(
      begin, begin + bytes,
      [&](int64_t page, int64_t size, int64_t from, int64_t to) -> absl::Status {
        TESSERA_RETURN_IF_ERROR(arenas_.nvme->Read({{pages_.get(), buffer.offset + page, size}}));
        std::memcpy(values + (from - begin), pages_.get() + (from - page),
                    static_cast<size_t>(to - from));
        return absl::OkStatus();
      });
}

absl::Status StateMemory::StoreBytes(const Buffer& buffer, int64_t begin, int64_t bytes,
                                     const std::byte* values) const {
  if (buffer.tier != Tier::kNvme) {
    return device_.CopyFromHost(values, arenas_.Of(buffer.tier) + buffer.offset + begin, bytes);
  }
  return ForEachPiece(
      begin, begin + bytes,
      [&](int64_t page, int64_t size, int64_t from, int64_t to) -> absl::Status {
        // What else is in the pages stays.
        if (to - from != size) {
          TESSERA_RETURN_IF_ERROR(arenas_.nvme->Read({{pages_.get(), buffer.offset + page, size}}));
        }
        std::memcpy(pages_.get() + (from - page), values + (from - begin),
                    static_cast<size_t>(to - from));
        return arenas_.nvme->Write({{pages_.get(), buffer.offset + page, size}});
      });
}

}  // namespace tessera
