#include "core/config/config_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "yaml-cpp/yaml.h"

namespace tessera {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 20;
constexpr size_t kMostProblems = 50;

// What the user wrote, fit for a line of a message.
std::string Shown(absl::string_view text) {
  constexpr size_t kLongest = 60;
  std::string shown = absl::CHexEscape(text.substr(0, kLongest));
  if (text.size() > kLongest) absl::StrAppend(&shown, "...");
  return shown;
}

std::string ShownList(const YAML::Node& list) {
  constexpr size_t kLongest = 8;
  std::vector<std::string> elements;
  for (const YAML::Node& element : list) {
    if (!element.IsScalar() || elements.size() == kLongest) return "a list";
    elements.push_back(Shown(element.Scalar()));
  }
  return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
}

std::string Shown(const YAML::Node& value) {
  if (value.IsMap()) return "a map";
  if (value.IsSequence()) return ShownList(value);
  if (value.IsNull()) return "empty";
  const bool quoted = value.Tag() == "!";
  return quoted ? absl::StrCat("\"", Shown(value.Scalar()), "\"") : Shown(value.Scalar());
}

std::string Place(const std::string& file, const YAML::Mark& mark) {
  return absl::StrCat(file, ":", mark.line + 1, ":", mark.column + 1);
}

std::string Join(const std::string& section, const std::string& name) {
  return section.empty() ? name : absl::StrCat(section, ".", name);
}

// The file's text, or what is wrong with the file.
std::string ReadText(const std::string& path, std::string& problem) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    problem = absl::StrCat("cannot open the configuration: ", std::strerror(errno));
  } else if (!S_ISREG(status.st_mode)) {
    problem = "not a regular file; expected a YAML file";
  } else if (status.st_size > kLargestFile) {
    problem = absl::StrCat(status.st_size, " bytes; a configuration has at most ", kLargestFile);
  } else if (status.st_size == 0) {
    problem = "empty; expected a YAML map of settings";
  }
  if (!problem.empty()) return "";
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    problem = absl::StrCat("cannot open the configuration: ", std::strerror(errno));
    return "";
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

bool ConfigReader::ReadFile(const std::string& path) {
  file_ = path;
  std::string problem;
  const std::string text = ReadText(path, problem);
  std::vector<YAML::Node> documents;
  if (problem.empty()) {
    try {
      documents = YAML::LoadAll(text);
    } catch (const YAML::Exception& error) {
      problems_.push_back(
          {"", absl::StrCat(Place(path, error.mark), ": not YAML: ", Shown(error.msg),
                            "; check colons, brackets, quotes and indentation")});
      return false;
    }
    if (documents.empty() || documents[0].IsNull()) {
      problem = "no settings; expected a YAML map of settings";
    } else if (documents.size() > 1) {
      problem = absl::StrCat(documents.size(), " YAML documents; expected one: remove `---`");
    } else if (!documents[0].IsMap()) {
      problem = absl::StrCat("the whole file is ", Shown(documents[0]),
                             "; expected a YAML map of settings, such as `seed: 1`");
    }
  }
  if (!problem.empty()) {
    problems_.push_back({"", absl::StrCat(path, ": ", problem)});
    return false;
  }
  ReadMap(documents[0], "");
  return true;
}

void ConfigReader::ReadMap(const YAML::Node& map, const std::string& section) {
  std::set<std::string> names;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) {
      problems_.push_back({"", absl::StrCat(Place(file_, entry.first.Mark()), ": a key is ",
                                            Shown(entry.first), "; expected a name")});
      continue;
    }
    const std::string& name = entry.first.Scalar();
    const std::string path = Join(section, name);
    const std::string place = Place(file_, entry.first.Mark());
    if (!names.insert(name).second) {
      problems_.push_back({"", absl::StrCat(place, ": ", Shown(path), " is given twice, first at ",
                                            PlaceOf(path), "; remove one")});
      continue;
    }
    places_[path] = place;
    if (const Key* key = schema_.Find(path)) {
      Store(*key, entry.second);
    } else if (!schema_.IsSection(path)) {
      ReadUnknown(path, entry.second);
    } else {
      ReadSection(path, entry.second);
    }
  }
}

void ConfigReader::ReadSection(const std::string& path, const YAML::Node& value) {
  const std::vector<std::string> shorthand = schema_.ShorthandOf(path);
  if (value.IsMap()) {
    ReadMap(value, path);
  } else if (value.IsScalar() && !shorthand.empty()) {
    for (const std::string& key : shorthand) {
      places_[key] = PlaceOf(path);
      if (schema_.Find(key)->store(value)) continue;
      Complain(path,
               absl::StrCat(path, " is ", Shown(value), "; expected ", schema_.Find(key)->expected,
                            ", or a map of ", absl::StrJoin(schema_.NamesIn(path), ", ")));
      return;
    }
  } else {
    Complain(path, absl::StrCat(path, " is ", Shown(value), "; expected a map of ",
                                absl::StrJoin(schema_.NamesIn(path), ", ")));
  }
}

void ConfigReader::ReadUnknown(const std::string& path, const YAML::Node& value) {
  const std::string* advice = schema_.ForeignAdvice(path);
  if (advice == nullptr) {
    ComplainOfUnknown(path);
    return;
  }
  Complain(path, absl::StrCat(Shown(path), " ", *advice));
  if (!value.IsMap()) return;
  // Another program's whole section: tell about its keys, too, as far as known.
  for (const auto& entry : value) {
    if (!entry.first.IsScalar()) continue;
    const std::string inner = Join(path, entry.first.Scalar());
    if (const std::string* inner_advice = schema_.ForeignAdvice(inner)) {
      places_[inner] = Place(file_, entry.first.Mark());
      Complain(inner, absl::StrCat(Shown(inner), " ", *inner_advice));
    }
  }
}

void ConfigReader::ComplainOfUnknown(const std::string& path) {
  const std::string nearest = schema_.Nearest(path);
  if (!nearest.empty()) {
    // Nothing is known about its value, and it is not missing either.
    bad_keys_.insert(nearest);
    Complain(path, absl::StrCat(Shown(path), " is not a key; did you mean ", nearest, "?"));
    return;
  }
  const size_t dot = path.rfind('.');
  const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  Complain(path, absl::StrCat(Shown(path), " is not a key; expected one of ",
                              absl::StrJoin(schema_.NamesIn(section), ", ")));
}

void ConfigReader::Store(const Key& key, const YAML::Node& value) {
  if (key.store(value)) return;
  Complain(key.path, absl::StrCat(key.path, " is ", Shown(value), "; expected ", key.expected));
}

void ConfigReader::Override(const std::string& setting) {
  const size_t equals = setting.find('=');
  const std::string path = setting.substr(0, equals);
  const std::string place = absl::StrCat("--set ", Shown(path));
  if (equals == std::string::npos || equals == 0) {
    problems_.push_back(
        {"", absl::StrCat("--set ", Shown(setting), ": expected --set key.path=value")});
    return;
  }
  places_[path] = place;
  const Key* key = schema_.Find(path);
  if (key == nullptr && schema_.IsSection(path) && schema_.ShorthandOf(path).empty()) {
    Complain(path, absl::StrCat(path, " has keys of its own; set one of them: ",
                                absl::StrJoin(schema_.NamesIn(path), ", ")));
    return;
  }
  try {
    const YAML::Node value = YAML::Load(setting.substr(equals + 1));
    if (key == nullptr && schema_.IsSection(path)) {
      Reset(path);
      if (value.IsMap()) {
        for (const auto& entry : value) {
          Override(absl::StrCat(path, ".", entry.first.Scalar(), "=", YAML::Dump(entry.second)));
        }
      } else {
        ReadSection(path, value);
      }
    } else if (key == nullptr) {
      ReadUnknown(path, YAML::Node());
    } else {
      Forget(path);
      Store(*key, value);
    }
  } catch (const YAML::Exception& error) {
    Complain(path, absl::StrCat("not YAML: ", Shown(error.msg)));
  }
}

void ConfigReader::Reset(const std::string& section) {
  Forget(section);
  for (const Key& key : schema_.keys()) {
    if (key.path.rfind(section + ".", 0) != 0) continue;
    for (std::string path = key.path; path != section; path.resize(path.rfind('.'))) {
      Forget(path);
      places_.erase(path);
    }
    key.store(YAML::Load(key.default_text));
  }
}

void ConfigReader::Forget(const std::string& key) {
  problems_.erase(std::remove_if(problems_.begin(), problems_.end(),
                                 [&](const Problem& problem) { return problem.key == key; }),
                  problems_.end());
  bad_keys_.erase(key);
}

void ConfigReader::CheckRequired() {
  for (const Key& key : schema_.keys()) {
    if (!key.required || Given(key.path) || !Good({key.path})) continue;
    Complain(key.path, absl::StrCat(key.path, " is missing; expected ", key.expected));
  }
}

bool ConfigReader::Good(std::initializer_list<absl::string_view> keys) const {
  return std::none_of(keys.begin(), keys.end(), [this](absl::string_view key) {
    return bad_keys_.count(std::string(key)) > 0 ||
           bad_keys_.count(std::string(key.substr(0, key.find('.')))) > 0;
  });
}

void ConfigReader::Complain(absl::string_view key, absl::string_view message) {
  bad_keys_.emplace(key);
  problems_.push_back({std::string(key), absl::StrCat(PlaceOf(key), ": ", message)});
}

std::string ConfigReader::PlaceOf(absl::string_view key) const {
  for (std::string path(key); !path.empty();) {
    if (const auto place = places_.find(path); place != places_.end()) return place->second;
    const size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return file_;
}

absl::Status ConfigReader::status() const {
  if (problems_.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const Problem& problem : problems_) {
    if (lines.size() == kMostProblems) {
      lines.push_back(
          absl::StrCat(file_, ": and ", problems_.size() - kMostProblems, " more problems"));
      break;
    }
    lines.push_back(problem.line);
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace tessera
