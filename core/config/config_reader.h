#ifndef TESSERA_CORE_CONFIG_CONFIG_READER_H_
#define TESSERA_CORE_CONFIG_CONFIG_READER_H_

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/config/schema.h"

namespace tessera {

// Fills a schema's variables from a YAML file and from settings of the command
// line, and gathers every problem on the way instead of stopping at the first.
// A problem is one line: "run.yaml:3:5: model.layers is x; expected an integer ...".
class ConfigReader {
 public:
  // `schema` must outlive the reader.
  explicit ConfigReader(const Schema& schema) : schema_(schema) {}

  // Reads the file (at most 1 MiB, one YAML document, a map). False when it could
  // not be read as YAML at all, so that checking further makes no sense.
  bool ReadFile(const std::string& path);

  // Applies "key.path=value", the value in YAML's notation. It takes the place of
  // what was given before, and of the problem with that.
  void Override(const std::string& setting);

  // Complains about required keys that were not given.
  void CheckRequired();

  bool Given(absl::string_view key) const { return places_.count(std::string(key)) > 0; }
  // Whether no problem with any of these keys is known: for checks that relate them.
  bool Good(std::initializer_list<absl::string_view> keys) const;
  // Adds a problem, at the place where `key` (or else its section) was given.
  void Complain(absl::string_view key, absl::string_view message);

  // Ok, or InvalidArgument with a line for each problem.
  absl::Status status() const;

 private:
  void ReadMap(const YAML::Node& map, const std::string& section);
  // A value for a section: a map, or what its shorthand takes.
  void ReadSection(const std::string& path, const YAML::Node& value);
  void ReadUnknown(const std::string& path, const YAML::Node& value);
  void ComplainOfUnknown(const std::string& path);
  void Store(const Key& key, const YAML::Node& value);
  // Takes back all that was given for a section that has a shorthand: its keys have their
  // defaults, which are values.
  void Reset(const std::string& section);
  // What was wrong with a value that another has taken the place of.
  void Forget(const std::string& key);
  std::string PlaceOf(absl::string_view key) const;

  const Schema& schema_;
  std::string file_;
  std::map<std::string, std::string> places_;  // key or section -> "run.yaml:3:5"
  std::set<std::string> bad_keys_;
  struct Problem {
    std::string key;  // empty if it is not one key's
    std::string line;
  };
  std::vector<Problem> problems_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_CONFIG_CONFIG_READER_H_
