#include "sharding/uses.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

bool Contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Appends `position`, or lengthens the unit's last span where that ended just before.
void Extend(int unit, int first, int last, std::vector<Span>* spans) {
  if (!spans->empty() && spans->back().last + 1 >= first) {
    spans->back().last = last;
  } else {
    spans->push_back({unit, first, last, first});
  }
}

// The spans of one unit in one micro-step, from the positions that read it.
std::vector<Span> SpansOf(int unit, const std::vector<int>& forward,
                          const std::vector<int>& backward) {
  std::vector<Span> spans;
  for (const auto* positions : {&forward, &backward}) {
    for (int position : *positions) Extend(unit, position, position, &spans);
  }
  if (spans.size() <= 2) return spans;
  spans.clear();
  for (const auto* positions : {&forward, &backward}) {
    if (!positions->empty()) Extend(unit, positions->front(), positions->back(), &spans);
  }
  return spans;
}

}  // namespace

absl::Status Uses::Check(const Model& model) {
  if (model.calls.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model.name, " has no calls; give it at least one"));
  }
  std::vector<std::vector<bool>> used;
  for (const UnitSpec& unit : model.units) used.emplace_back(unit.parameters.size(), false);
  for (const Call& call : model.calls) {
    for (size_t i = 0; i < call.uses.size(); ++i) {
      const ParameterUse& use = call.uses[i];
      if (use.unit < 0 || use.unit >= static_cast<int>(used.size()) || use.parameter < 0 ||
          use.parameter >= static_cast<int>(used[use.unit].size())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "call ", call.name, " uses parameter ", use.parameter, " of unit ", use.unit,
            ", which model ", model.name, " does not declare; correct the call's uses"));
      }
      used[use.unit][use.parameter] = true;
      for (size_t j = 0; j < i; ++j) {
        if (call.uses[j].unit == use.unit && call.uses[j].parameter == use.parameter) {
          return absl::InvalidArgumentError(absl::StrCat(
              "call ", call.name, " lists parameter ",
              model.units[use.unit].parameters[use.parameter].name,
              " twice; a call gets each parameter once and returns its whole gradient"));
        }
      }
    }
  }
  const Call& last = model.calls.back();
  if (!last.backward_reads_parameters || last.recomputable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "call ", last.name, " is the last of model ", model.name,
        ", whose backward finds the loss: let it read its parameters, and recompute nothing"));
  }
  for (size_t u = 0; u < used.size(); ++u) {
    for (size_t p = 0; p < used[u].size(); ++p) {
      if (used[u][p]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", model.units[u].parameters[p].name, " of unit ", model.units[u].name,
          " is used by no call, so it has no gradient; use it or remove it"));
    }
  }
  return absl::OkStatus();
}

Uses::Uses(const Model& model)
    : uses_(model.units.size()),
      units_(model.calls.size()),
      first_call_(model.units.size(), static_cast<int>(model.calls.size())) {
  for (size_t u = 0; u < model.units.size(); ++u) {
    uses_[u].resize(model.units[u].parameters.size());
  }
  for (int call = static_cast<int>(model.calls.size()) - 1; call >= 0; --call) {
    for (const ParameterUse& use : model.calls[call].uses) {
      uses_[use.unit][use.parameter].push_back(call);
      if (!Contains(units_[call], use.unit)) units_[call].push_back(use.unit);
      first_call_[use.unit] = call;
    }
  }
}

std::vector<Position> SequenceOf(const Model& model, const PlanOptions& options) {
  const int calls = static_cast<int>(model.calls.size());
  std::vector<Position> sequence;
  for (int a = 0; a < options.accumulation; ++a) {
    const bool train = options.kind == PlanOptions::Kind::kTrain;
    for (int call = 0; call < (train ? calls - 1 : calls); ++call) {
      sequence.push_back({a, call, false});
    }
    if (!train) continue;
    for (int call = calls - 1; call >= 0; --call) sequence.push_back({a, call, true});
  }
  return sequence;
}

std::vector<Span> GatherSpans(const Model& model, const Uses& uses,
                              const std::vector<Position>& sequence, const PlanOptions& options,
                              const std::vector<bool>& arrives) {
  const int micro_steps = sequence.back().micro_step + 1;
  const size_t units = model.units.size();
  std::vector<std::vector<std::vector<int>>> forward(units), backward(units);
  for (size_t u = 0; u < units; ++u) {
    forward[u].resize(micro_steps);
    backward[u].resize(micro_steps);
  }
  for (size_t p = 0; p < sequence.size(); ++p) {
    const Position& at = sequence[p];
    const Call& call = model.calls[at.call];
    const bool recomputes = options.recompute && call.recomputable;
    if (at.backward && !call.backward_reads_parameters && !recomputes) continue;
    for (int unit : uses.UnitsOf(at.call)) {
      (at.backward ? backward : forward)[unit][at.micro_step].push_back(static_cast<int>(p));
    }
  }
  std::vector<Span> all;
  for (size_t u = 0; u < units; ++u) {
    if (!arrives[u]) continue;
    std::vector<Span> spans;
    for (int a = 0; a < micro_steps; ++a) {
      for (const Span& span : SpansOf(static_cast<int>(u), forward[u][a], backward[u][a])) {
        Extend(span.unit, span.first, span.last, &spans);
      }
    }
    all.insert(all.end(), spans.begin(), spans.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<int> places;
  for (Span& span : all) {
    if (places.empty() || places.back() != span.first) places.push_back(span.first);
    span.issue = places[std::max<int>(static_cast<int>(places.size()) - 1 - options.prefetch, 0)];
  }
  return all;
}

}  // namespace tessera
