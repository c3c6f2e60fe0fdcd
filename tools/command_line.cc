#include "tools/command_line.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/config/scalar.h"
#include "core/status.h"

namespace tessera {
namespace {

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& names) {
  std::string nearest;
  // Further away is no help.
  int64_t least = std::min<int64_t>(4, static_cast<int64_t>(name.size() + 1) / 2 + 1);
  for (const std::string& known : names) {
    const int64_t distance = EditDistance(name, known);
    if (distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

std::string CommandLine::Get(const std::string& name, const std::string& fallback) const {
  const auto found = options.find(name);
  return found == options.end() ? fallback : found->second.back();
}

std::vector<std::string> CommandLine::All(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::vector<std::string>() : found->second;
}

absl::StatusOr<int> CommandLine::Integer(const std::string& name, int fallback, int low,
                                         int high) const {
  if (!Has(name)) return fallback;
  const std::string text = Get(name, "");
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, " is \"", text, "\"; expected a whole number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                             const CommandSyntax& syntax) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "--")) {
      line.positional.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name(argument.substr(0, equals));
    const bool has_value = equals != absl::string_view::npos;
    if (Contains(syntax.without_value, name)) {
      if (has_value) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value; remove it"));
      }
      line.options[name];
    } else if (Contains(syntax.with_value, name)) {
      std::string value;
      if (has_value) value = std::string(argument.substr(equals + 1));
      if (!has_value && ++i < arguments.size()) value = arguments[i];
      if (value.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " lacks its value"));
      }
      line.options[name].push_back(value);
    } else {
      std::vector<std::string> known = syntax.with_value;
      known.insert(known.end(), syntax.without_value.begin(), syntax.without_value.end());
      const std::string nearest = NearestName(name, known);
      return absl::InvalidArgumentError(
          absl::StrCat("there is no option --", name,
                       nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?")));
    }
  }
  const int count = static_cast<int>(line.positional.size());
  if (count < syntax.least_positional) {
    return absl::InvalidArgumentError(
        absl::StrCat(syntax.positional, " is missing; give its path"));
  }
  if (count > syntax.most_positional) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", line.positional[syntax.most_positional], "\" is one argument too many"));
  }
  return line;
}

}  // namespace tessera
