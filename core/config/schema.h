#ifndef TESSERA_CORE_CONFIG_SCHEMA_H_
#define TESSERA_CORE_CONFIG_SCHEMA_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace YAML {
class Node;
}

namespace tessera {

struct IntegerRange {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
};

// Infinite ends are absent ones; values are always finite.
struct RealRange {
  enum class End { kIncluded, kExcluded };
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  End low_end = End::kIncluded;
  End high_end = End::kIncluded;
};

// A row of the table: one setting.
struct Key {
  std::string path;          // "model.layers"
  std::string expected;      // completes "expected ...", "an integer from 1 to 64"
  std::string default_text;  // as the reference shows it
  std::string help;
  // Stores a value that is as expected and returns true, or changes nothing.
  std::function<bool(const YAML::Node&)> store;
  // The same of a text that `show` gave.
  bool StoreText(const std::string& text) const;
  // What the variable holds: different texts for different values.
  std::function<std::string()> show;
  bool required = false;

  Key& Required();
  Key& Expected(std::string text);
  // For a default that is a rule or an absence and not a value.
  Key& Default(std::string text);
};

// The table of a configuration: every key with its type, range, default, help and
// the variable that takes it. It checks a file (ConfigReader), and prints the
// reference. A variable's value at the time of the call is its key's default;
// variables must outlive the schema. References to keys hold until the next call.
class Schema {
 public:
  // A title and an introduction for the keys below `path`.
  void Section(std::string path, std::string help);

  Key& Boolean(std::string path, bool& target, std::string help);
  Key& Integer(std::string path, int64_t& target, IntegerRange range, std::string help);
  Key& Real(std::string path, double& target, RealRange range, std::string help);
  // A list of exactly target.size() numbers.
  Key& Reals(std::string path, absl::Span<double> target, RealRange range, std::string help);
  // Bytes, written with a unit.
  Key& Size(std::string path, int64_t& target, IntegerRange range, std::string help);
  Key& Text(std::string path, std::string& target, std::string help);
  template <typename Enum>
  Key& Choice(std::string path, Enum& target, std::vector<std::pair<std::string, Enum>> choices,
              std::string help);

  // Lets a plain value stand for the section `path`: it is then the value of each of
  // these keys, as in `offload: {optimizer: host}` for `{optimizer: {tier: host}}`.
  void Shorthand(std::string path, std::vector<std::string> keys);

  // A name that users of another program may write: a key's last part or its
  // path. `advice` says what to do instead.
  void Foreign(std::string name, std::string advice);

  const std::vector<Key>& keys() const { return keys_; }
  const Key* Find(absl::string_view path) const;
  // Whether keys lie below `path`; the root is "".
  bool IsSection(absl::string_view path) const;
  // The keys and sections directly below a section, without its path.
  std::vector<std::string> NamesIn(absl::string_view section) const;
  // The key or section that an unknown `path` was probably meant to be, or "".
  std::string Nearest(absl::string_view path) const;
  // The keys that a plain value for the section is for; empty if it cannot have one.
  std::vector<std::string> ShorthandOf(absl::string_view section) const;
  // What was said with Foreign about this name, or null.
  const std::string* ForeignAdvice(absl::string_view path) const;

  // Markdown: a table per section.
  std::string Reference() const;

 private:
  // The declared section that a key's path is in, or in a part of.
  std::string TableOf(absl::string_view path) const;
  Key& Add(std::string path, std::string expected, std::string help,
           std::function<std::string()> show, std::function<bool(const YAML::Node&)> store);
  Key& AddChoice(std::string path, std::vector<std::string> names, std::string help,
                 std::function<size_t()> load, std::function<void(size_t)> store);

  std::vector<Key> keys_;
  std::vector<std::pair<std::string, std::string>> sections_;
  std::vector<std::pair<std::string, std::vector<std::string>>> shorthands_;
  std::vector<std::pair<std::string, std::string>> foreign_;
};

template <typename Enum>
Key& Schema::Choice(std::string path, Enum& target,
                    std::vector<std::pair<std::string, Enum>> choices, std::string help) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  const auto load = [&target, choices] {
    size_t index = 0;
    while (index + 1 < choices.size() && choices[index].second != target) ++index;
    return index;
  };
  return AddChoice(std::move(path), std::move(names), std::move(help), load,
                   [&target, choices](size_t index) { target = choices[index].second; });
}

}  // namespace tessera

#endif  // TESSERA_CORE_CONFIG_SCHEMA_H_
