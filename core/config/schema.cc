#include "core/config/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/config/scalar.h"
#include "yaml-cpp/yaml.h"

namespace tessera {
namespace {

// Quotes make a text of a value: "5" is not a number.
bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

template <typename Value>
bool StoreIf(const std::optional<Value>& value, bool in_range, Value& target) {
  if (!in_range) return false;
  target = *value;
  return true;
}

bool Contains(const RealRange& range, double value) {
  const bool above =
      range.low_end == RealRange::End::kExcluded ? value > range.low : value >= range.low;
  const bool below =
      range.high_end == RealRange::End::kExcluded ? value < range.high : value <= range.high;
  return above && below;
}

std::optional<double> RealIn(const RealRange& range, const YAML::Node& node) {
  if (!IsPlain(node)) return std::nullopt;
  const std::optional<double> value = ParseReal(node.Scalar());
  return value.has_value() && Contains(range, *value) ? value : std::nullopt;
}

std::string Describe(const RealRange& range) {
  std::vector<std::string> parts;
  if (std::isfinite(range.low)) {
    parts.push_back(absl::StrCat(
        range.low_end == RealRange::End::kExcluded ? "above " : "at least ", range.low));
  }
  if (std::isfinite(range.high)) {
    parts.push_back(absl::StrCat(
        range.high_end == RealRange::End::kExcluded ? "below " : "at most ", range.high));
  }
  return absl::StrJoin(parts, " and ");
}

std::string Describe(const IntegerRange& range, std::string (*format)(int64_t)) {
  const bool low = range.low != std::numeric_limits<int64_t>::min();
  const bool high = range.high != std::numeric_limits<int64_t>::max();
  if (low && high) return absl::StrCat("from ", format(range.low), " to ", format(range.high));
  if (low) return absl::StrCat("of at least ", format(range.low));
  if (high) return absl::StrCat("of at most ", format(range.high));
  return "";
}

std::string FormatInteger(int64_t value) { return absl::StrCat(value); }

// The shortest text that reads back to the same bits.
std::string FormatReal(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

std::string WithoutTrailingSpace(std::string text) {
  while (!text.empty() && (text.back() == ' ')) text.pop_back();
  return text;
}

// "model.layers" -> {"model", "layers"}; "seed" -> {"", "seed"}.
std::pair<absl::string_view, absl::string_view> SplitPath(absl::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

Key& Key::Required() {
  required = true;
  default_text = "required";
  return *this;
}

Key& Key::Expected(std::string text) {
  expected = std::move(text);
  return *this;
}

Key& Key::Default(std::string text) {
  default_text = std::move(text);
  return *this;
}

void Schema::Section(std::string path, std::string help) {
  sections_.emplace_back(std::move(path), std::move(help));
}

Key& Schema::Add(std::string path, std::string expected, std::string help,
                 std::function<std::string()> show, std::function<bool(const YAML::Node&)> store) {
  std::string default_text = show();
  keys_.push_back(Key{std::move(path), WithoutTrailingSpace(std::move(expected)),
                      std::move(default_text), std::move(help), std::move(store), std::move(show)});
  return keys_.back();
}

Key& Schema::Boolean(std::string path, bool& target, std::string help) {
  return Add(
      std::move(path), "true or false", std::move(help),
      [&target] { return std::string(target ? "true" : "false"); },
      [&target](const YAML::Node& node) {
        if (!IsPlain(node)) return false;
        if (node.Scalar() != "true" && node.Scalar() != "false") return false;
        target = node.Scalar() == "true";
        return true;
      });
}

Key& Schema::Integer(std::string path, int64_t& target, IntegerRange range, std::string help) {
  return Add(
      std::move(path), absl::StrCat("an integer ", Describe(range, FormatInteger)), std::move(help),
      [&target] { return absl::StrCat(target); },
      [&target, range](const YAML::Node& node) {
        if (!IsPlain(node)) return false;
        const auto value = ParseInteger(node.Scalar());
        return StoreIf(value, value >= range.low && value <= range.high, target);
      });
}

Key& Schema::Real(std::string path, double& target, RealRange range, std::string help) {
  const bool is_of = range.low_end == RealRange::End::kIncluded;
  return Add(
      std::move(path), absl::StrCat("a number ", is_of ? "of " : "", Describe(range)),
      std::move(help), [&target] { return FormatReal(target); },
      [&target, range](const YAML::Node& node) {
        const auto value = RealIn(range, node);
        return StoreIf(value, value.has_value(), target);
      });
}

Key& Schema::Reals(std::string path, absl::Span<double> target, RealRange range, std::string help) {
  return Add(
      std::move(path),
      absl::StrCat("a list of ", target.size(), " numbers, each ", Describe(range)),
      std::move(help),
      [target] {
        std::vector<std::string> texts;
        for (const double value : target) texts.push_back(FormatReal(value));
        return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
      },
      [target, range](const YAML::Node& node) {
        if (!node.IsSequence() || node.size() != target.size()) return false;
        std::vector<double> values;
        for (const YAML::Node& element : node) {
          const auto value = RealIn(range, element);
          if (!value.has_value()) return false;
          values.push_back(*value);
        }
        std::copy(values.begin(), values.end(), target.begin());
        return true;
      });
}

Key& Schema::Size(std::string path, int64_t& target, IntegerRange range, std::string help) {
  return Add(
      std::move(path), absl::StrCat("a size such as 64MiB or 1GB, ", Describe(range, FormatSize)),
      std::move(help), [&target] { return FormatSize(target); },
      [&target, range](const YAML::Node& node) {
        if (!IsPlain(node)) return false;
        const auto value = ParseSize(node.Scalar());
        return StoreIf(value, value >= range.low && value <= range.high, target);
      });
}

bool Key::StoreText(const std::string& text) const { return store(YAML::Load(text)); }

Key& Schema::Text(std::string path, std::string& target, std::string help) {
  return Add(
      std::move(path), "text", std::move(help),
      [&target] { return target.empty() ? "none" : absl::CHexEscape(target); },
      [&target](const YAML::Node& node) {
        if (!node.IsScalar()) return false;
        target = node.Scalar();
        return true;
      });
}

Key& Schema::AddChoice(std::string path, std::vector<std::string> names, std::string help,
                       std::function<size_t()> load, std::function<void(size_t)> store) {
  std::string expected =
      absl::StrCat(names.size() > 1 ? "one of " : "", absl::StrJoin(names, ", "));
  const auto show = [names, load = std::move(load)] { return names[load()]; };
  return Add(std::move(path), std::move(expected), std::move(help), show,
             [names = std::move(names), store = std::move(store)](const YAML::Node& node) {
               if (!node.IsScalar()) return false;
               const auto match = std::find(names.begin(), names.end(), node.Scalar());
               if (match == names.end()) return false;
               store(static_cast<size_t>(match - names.begin()));
               return true;
             });
}

void Schema::Shorthand(std::string path, std::vector<std::string> keys) {
  shorthands_.emplace_back(std::move(path), std::move(keys));
}

std::vector<std::string> Schema::ShorthandOf(absl::string_view section) const {
  for (const auto& [path, keys] : shorthands_) {
    if (path == section) return keys;
  }
  return {};
}

void Schema::Foreign(std::string name, std::string advice) {
  foreign_.emplace_back(std::move(name), std::move(advice));
}

const Key* Schema::Find(absl::string_view path) const {
  const auto key = std::find_if(keys_.begin(), keys_.end(),
                                [path](const Key& candidate) { return candidate.path == path; });
  return key == keys_.end() ? nullptr : &*key;
}

bool Schema::IsSection(absl::string_view path) const { return !NamesIn(path).empty(); }

std::vector<std::string> Schema::NamesIn(absl::string_view section) const {
  const std::string prefix = section.empty() ? "" : absl::StrCat(section, ".");
  std::vector<std::string> names;
  for (const Key& key : keys_) {
    if (!absl::StartsWith(key.path, prefix)) continue;
    std::string name = key.path.substr(prefix.size());
    name.resize(std::min(name.find('.'), name.size()));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

const std::string* Schema::ForeignAdvice(absl::string_view path) const {
  const absl::string_view name = SplitPath(path).second;
  for (const auto& [foreign, advice] : foreign_) {
    if (foreign == path || foreign == name) return &advice;
  }
  return nullptr;
}

std::string Schema::Nearest(absl::string_view path) const {
  const auto [section, name] = SplitPath(path);
  // A near miss in the same section is a likelier meaning than one elsewhere:
  // distances are doubled, and another section adds one.
  int64_t best_distance = 2 * std::max<int64_t>(1, static_cast<int64_t>(name.size()) / 3) + 2;
  std::string best;
  const auto consider = [&, section = section, name = name](absl::string_view candidate) {
    const auto [other_section, other_name] = SplitPath(candidate);
    const int64_t distance =
        2 * EditDistance(name, other_name) + (section == other_section ? 0 : 1);
    if (candidate.empty() || distance >= best_distance) return;
    best_distance = distance;
    best = std::string(candidate);
  };
  // Beyond this a name is a mistake of another kind, and would cost time.
  constexpr size_t kLongestName = 64;
  if (name.size() <= kLongestName) {
    for (const Key& key : keys_) {
      consider(key.path);
      consider(SplitPath(key.path).first);
    }
  }
  return best;
}

std::string Schema::TableOf(absl::string_view path) const {
  absl::string_view table = SplitPath(path).first;
  while (std::none_of(sections_.begin(), sections_.end(),
                      [&](const auto& section) { return section.first == table; })) {
    table = SplitPath(table).first;
  }
  return std::string(table);
}

std::string Schema::Reference() const {
  std::string text;
  for (const auto& [section, help] : sections_) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", help, "\n\n",
                    "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (const Key& key : keys_) {
      if (TableOf(key.path) != section) continue;
      absl::StrAppend(&text, "| `", key.path, "` | ", key.expected, " | ", key.default_text, " | ",
                      key.help, " |\n");
    }
  }
  return text;
}

}  // namespace tessera
