#include <array>

#include "absl/strings/str_cat.h"
#include "sharding/plan.h"

namespace tessera {
namespace {

constexpr std::array<absl::string_view, kCategories> kCategoryNames = {
    "parameters",  "gradients", "optimizer",     "partial_sums",
    "activations", "workspace", "communication", "snapshot"};

constexpr std::array<absl::string_view, kLanes> kLaneNames = {
    "compute", "communication", "host", "host_compute", "copy_in", "copy_out", "read", "write"};

constexpr std::array<absl::string_view, 21> kOperationNames = {"stage_batch",
                                                               "gather_parameters",
                                                               "forward",
                                                               "backward",
                                                               "clear_padding",
                                                               "fold_contributions",
                                                               "release",
                                                               "accumulate",
                                                               "exchange",
                                                               "sum",
                                                               "gather_gradient",
                                                               "square_norm",
                                                               "reduce_norm",
                                                               "gather_losses",
                                                               "clip",
                                                               "update",
                                                               "report",
                                                               "copy_in",
                                                               "copy_out",
                                                               "read",
                                                               "write"};

// The name of a thing in a list; its number where a faulty plan names no such thing.
template <typename Named>
std::string NameIn(const std::vector<Named>& list, int index) {
  if (index >= 0 && index < static_cast<int>(list.size())) return list[index].name;
  return absl::StrCat("#", index);
}

void AppendAccess(const Plan& plan, const Access& access, std::string* text) {
  absl::StrAppend(text, " ", NameIn(plan.buffers, access.buffer));
  switch (access.scope) {
    case Scope::kRange:
      break;
    case Scope::kOwn:
      absl::StrAppend(text, "@own");
      break;
    case Scope::kOthers:
      absl::StrAppend(text, "@others");
      break;
  }
  if (access.buffer < 0 || access.buffer >= static_cast<int>(plan.buffers.size())) return;
  const Buffer& buffer = plan.buffers[access.buffer];
  const bool whole =
      access.begin == 0 &&
      access.bytes == (access.scope == Scope::kRange ? buffer.bytes : buffer.shard_bytes);
  if (!whole) absl::StrAppend(text, "[", access.begin, "+", access.bytes, "]");
}

// "device", or "host 0.3".
std::string NameOf(const Placement& placement) {
  std::string tier(NameOf(placement.tier));
  if (placement.tier == Tier::kDevice) return tier;
  return absl::StrCat(tier, " ", placement.fraction);
}

}  // namespace

absl::string_view NameOf(Category category) { return kCategoryNames[static_cast<int>(category)]; }
absl::string_view NameOf(LaneKind lane) { return kLaneNames[static_cast<int>(lane)]; }
absl::string_view NameOf(Operation operation) {
  return kOperationNames[static_cast<int>(operation)];
}

std::string ShortName(const Model& model, const Instruction& i) {
  std::string text(NameOf(i.operation));
  if (i.call >= 0) absl::StrAppend(&text, " ", NameIn(model.calls, i.call));
  if (i.unit >= 0) absl::StrAppend(&text, " ", NameIn(model.units, i.unit));
  if (i.parameter >= 0 && i.unit >= 0 && i.unit < static_cast<int>(model.units.size())) {
    absl::StrAppend(&text, ".", NameIn(model.units[i.unit].parameters, i.parameter));
  }
  if (i.micro_step >= 0) absl::StrAppend(&text, " micro-step ", i.micro_step);
  if (i.piece >= 0) absl::StrAppend(&text, " piece ", i.piece);
  if (i.elements > 0) absl::StrAppend(&text, " elements ", i.first, "+", i.elements);
  if (i.recompute) absl::StrAppend(&text, " (recompute)");
  return text;
}

std::string PrintInstruction(const Plan& plan, const Model& model, int instruction) {
  const Instruction& i = plan.instructions[instruction];
  std::string text = absl::StrCat("%", instruction, " ", NameOf(i.lane), ": ", ShortName(model, i));
  if (!i.reads.empty()) absl::StrAppend(&text, " | reads");
  for (const Access& access : i.reads) AppendAccess(plan, access, &text);
  if (!i.writes.empty()) absl::StrAppend(&text, " | writes");
  for (const Access& access : i.writes) AppendAccess(plan, access, &text);
  if (!i.waits.empty()) absl::StrAppend(&text, " | waits");
  for (int wait : i.waits) absl::StrAppend(&text, " %", wait);
  return text;
}

std::string Print(const Plan& plan, const Model& model) {
  const PlanOptions& o = plan.options;
  constexpr std::array<absl::string_view, 3> kKinds = {"train", "evaluate", "predict"};
  std::string text =
      absl::StrCat("plan ", kKinds[static_cast<int>(o.kind)], " model ", model.name, " ",
                   NameOf(model.dtype), " world ", o.world, " stage ", o.stage, " micro ",
                   o.micro_sequences, " accumulation ", o.accumulation, " sum_group ", o.sum_group,
                   " prefetch ", o.prefetch, " bucket ", o.bucket_bytes, " recompute ",
                   o.recompute ? "block" : "none", " snapshot ", o.snapshot ? "yes" : "no");
  ForEachPlacement(o.offload, [&](absl::string_view name, const Placement& placement) {
    absl::StrAppend(&text, " ", name, " ", NameOf(placement));
  });
  absl::StrAppend(&text, " arena");
  for (const Tier tier : kTiers) {
    absl::StrAppend(&text, " ", NameOf(tier), " ", plan.arena_bytes[tier]);
  }
  absl::StrAppend(&text, "\n");
  for (const Buffer& buffer : plan.buffers) {
    absl::StrAppend(&text, "buffer ", buffer.name, " ", NameOf(buffer.category), " ", buffer.bytes,
                    " bytes at ", NameOf(buffer.tier), " ", buffer.offset,
                    buffer.persistent ? " persistent" : "", "\n");
  }
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    absl::StrAppend(&text, PrintInstruction(plan, model, static_cast<int>(i)), "\n");
  }
  return text;
}

}  // namespace tessera
