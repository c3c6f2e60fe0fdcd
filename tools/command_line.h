#ifndef TESSERA_TOOLS_COMMAND_LINE_H_
#define TESSERA_TOOLS_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// What a subcommand was called with.
struct CommandLine {
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>> options;  // by name, without "--"

  bool Has(const std::string& name) const { return options.count(name) > 0; }
  // The last value given, or `fallback`.
  std::string Get(const std::string& name, const std::string& fallback) const;
  std::vector<std::string> All(const std::string& name) const;
  // A whole number from `low` to `high`; InvalidArgument if it is not.
  absl::StatusOr<int> Integer(const std::string& name, int fallback, int low, int high) const;
};

// Which options a subcommand takes: with a value ("--ranks 2" or "--ranks=2"), or
// without one ("--json"); and how many positional arguments, and what one is.
struct CommandSyntax {
  std::vector<std::string> with_value;
  std::vector<std::string> without_value;
  int least_positional = 0;
  int most_positional = 0;
  std::string positional;  // "a configuration"
};

// The one of `names` that `name` was probably meant to be, or "".
std::string NearestName(absl::string_view name, const std::vector<std::string>& names);

// InvalidArgument for anything else, naming the nearest option there is.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                             const CommandSyntax& syntax);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMMAND_LINE_H_
