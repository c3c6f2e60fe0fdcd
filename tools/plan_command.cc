#include "tools/plan_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/metrics/progress_line.h"
#include "offload/tier.h"
#include "sharding/price.h"
#include "tools/check_run.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"
#include "tools/run_model.h"
#include "tools/train/run_device.h"

namespace tessera {
namespace {

void PrintJson(const PlanSet& plans, const Price& train, const Price& evaluate,
               uint64_t fingerprint) {
  nlohmann::ordered_json json;
  json["world"] = plans.train.options.world;
  json["stage"] = plans.train.options.stage;
  for (const Tier tier : kTiers) {
    nlohmann::ordered_json& memory = json["memory"][std::string(NameOf(tier))];
    for (int c = 0; c < kCategories; ++c) {
      memory[std::string(NameOf(static_cast<Category>(c)))] = train.memory[c][tier];
    }
    memory["peak"] = plans.arena_bytes[tier];
  }
  json["traffic"]["communication"] = train.bytes_sent;
  json["traffic"]["control"] = train.control_bytes_sent;
  json["traffic"]["copy_in"] = train.traffic.copied_in;
  json["traffic"]["copy_out"] = train.traffic.copied_out;
  json["traffic"]["nvme_read"] = train.traffic.read;
  json["traffic"]["nvme_write"] = train.traffic.written;
  json["traffic"]["evaluation"] = evaluate.bytes_sent + evaluate.control_bytes_sent;
  const Offload& offload = plans.train.options.offload;
  ForEachPlacement(offload, [&](absl::string_view name, const Placement& placement) {
    json["offload"][std::string(name)] = {{"tier", std::string(NameOf(placement.tier))},
                                          {"fraction", placement.fraction}};
  });
  json["instructions"] = plans.train.instructions.size();
  json["fingerprint"] = absl::StrFormat("%016x", fingerprint);
  std::puts(json.dump(2).c_str());
}

void PrintTable(const PlanSet& plans, const Price& train, const Price& evaluate) {
  const auto row = [](absl::string_view name, int64_t bytes) {
    std::printf("  %-24s %16lld  %s\n", std::string(name).c_str(), static_cast<long long>(bytes),
                HumanBytes(static_cast<double>(bytes)).c_str());
  };
  for (const Tier tier : kTiers) {
    if (tier == Tier::kNvme && plans.arena_bytes[tier] == 0) continue;
    std::printf("%s memory per rank, bytes (the most of each at once)\n",
                std::string(NameOf(tier)).c_str());
    for (int c = 0; c < kCategories; ++c) {
      const int64_t bytes = train.memory[c][tier];
      if (tier == Tier::kDevice || bytes > 0) row(NameOf(static_cast<Category>(c)), bytes);
    }
    row("peak", plans.arena_bytes[tier]);
  }
  const TierTraffic& traffic = train.traffic;
  if (!(traffic == TierTraffic())) {
    std::puts("moved between tiers in a step, per rank, bytes");
    row("host to device", traffic.copied_in);
    row("device to host", traffic.copied_out);
    row("NVMe to host", traffic.read);
    row("host to NVMe", traffic.written);
  }
  std::puts("sent per rank, bytes");
  row("a step", train.bytes_sent);
  row("a step's losses and norm", train.control_bytes_sent);
  row("an evaluation pass", evaluate.bytes_sent + evaluate.control_bytes_sent);
}

}  // namespace

int PlanCommand(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(
      arguments, {{"ranks", "set", "device"}, {"json", "print"}, 1, 1, "a configuration"});
  if (!line.ok()) return ReportMisuse(line.status());
  const absl::StatusOr<int> ranks = line->Integer("ranks", 1, 1, kMostRanks);
  if (!ranks.ok()) return ReportMisuse(ranks.status());
  const absl::StatusOr<RunConfig> config =
      LoadRunConfig(line->positional[0], line->All("set"), *ranks);
  if (!config.ok()) return ReportMisuse(config.status());
  const absl::StatusOr<Model> model = MakeModel(*config);
  if (!model.ok()) return ReportMisuse(model.status());
  const absl::StatusOr<DeviceChoice> choice = ParseDeviceChoice(line->Get("device", "cpu"));
  if (!choice.ok()) return ReportMisuse(choice.status());
  const Backend backend = *choice == DeviceChoice::kCuda ? Backend::kCuda : Backend::kCpu;
  const absl::StatusOr<TierBytes> capacity = CapacityOf(*config, backend, /*ranks_here=*/0);
  if (!capacity.ok()) return ReportMisuse(capacity.status());
  const absl::StatusOr<PlanSet> plans = CheckRun(*config, *ranks, backend, *capacity);
  if (!plans.ok()) return ReportMisuse(plans.status());
  const Price train = PriceOf(plans->train);
  const Price evaluate = PriceOf(plans->evaluate);
  if (line->Has("print")) std::fputs(Print(plans->train, *model).c_str(), stdout);
  if (line->Has("json")) {
    PrintJson(*plans, train, evaluate, Fingerprint(Print(plans->train, *model)));
    return FinishOutput();
  }
  PrintTable(*plans, train, evaluate);
  const std::string withdrawn = WithdrawnPromise(*config, *ranks);
  if (!withdrawn.empty()) std::printf("note: %s\n", withdrawn.c_str());
  return FinishOutput();
}

}  // namespace tessera
