#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/config/config_reader.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Scalar, Integer) {
  EXPECT_EQ(ParseInteger("0"), 0);
  EXPECT_EQ(ParseInteger("-12"), -12);
  EXPECT_EQ(ParseInteger("9223372036854775807"), INT64_MAX);
  for (const char* text :
       {"", "-", "9223372036854775808", "1.0", "1e3", "0x10", "1_000", "1 2", "yes", "NaN"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(Scalar, Real) {
  EXPECT_EQ(ParseReal("1e-3"), 1e-3);
  EXPECT_EQ(ParseReal("-.5"), -0.5);
  EXPECT_EQ(ParseReal("3"), 3.0);
  for (const char* text : {"", "nan", ".nan", "inf", "-inf", ".inf", "1e999", "1,5", "0x1p3"}) {
    EXPECT_EQ(ParseReal(text), std::nullopt) << text;
  }
}

TEST(Scalar, Size) {
  EXPECT_EQ(ParseSize("0"), 0);
  EXPECT_EQ(ParseSize("17"), 17);
  EXPECT_EQ(ParseSize("17B"), 17);
  EXPECT_EQ(ParseSize("64MiB"), 64 * kMiB);
  EXPECT_EQ(ParseSize("64 MiB"), 64 * kMiB);
  EXPECT_EQ(ParseSize("1GB"), 1'000'000'000);
  EXPECT_EQ(ParseSize("8388607TiB"), int64_t{8388607} << 40);
  for (const char* text : {"", "MiB", "-1", "64mb", "64Mi", "1.5GiB", "8388608TiB",
                           "9223372036854775808", "1e6", "64MiB x"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1001}, int64_t{1024},
                              64 * kMiB, kMiB + 1, 3 * kGiB, INT64_MAX}) {
    EXPECT_EQ(ParseSize(FormatSize(bytes)), bytes);
  }
  EXPECT_EQ(FormatSize(64 * kMiB), "64MiB");
}

TEST(Scalar, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("layers", "layer"), 1);
  EXPECT_EQ(EditDistance("setps", "steps"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

enum class Mode { kFast, kSlow };

struct Settings {
  bool verbose = false;
  int64_t count = 3;
  double rate = 0.5;
  std::array<double, 2> pair = {0.25, 0.75};
  int64_t buffer = 2 * kMiB;
  std::string title;
  Mode mode = Mode::kFast;
};

Schema SettingsSchema(Settings& settings) {
  Schema schema;
  schema.Section("", "# General");
  schema.Boolean("verbose", settings.verbose, "says more");
  schema.Text("title", settings.title, "a title").Required();
  schema.Section("work", "# Work");
  schema.Integer("work.count", settings.count, {.low = 1, .high = 9}, "how many");
  schema.Real("work.rate", settings.rate,
              {.low = 0, .high = 1, .high_end = RealRange::End::kExcluded}, "how fast");
  schema.Reals("work.pair", absl::MakeSpan(settings.pair), {.low = 0}, "both");
  schema.Size("work.buffer", settings.buffer, {.low = 0}, "how much").Default("some");
  schema.Choice<Mode>("work.mode", settings.mode, {{"fast", Mode::kFast}, {"slow", Mode::kSlow}},
                      "how");
  schema.Foreign("quantity", "is another program's name; use work.count");
  return schema;
}

// Everything that is wrong with a file of this text and these settings.
std::string Problems(const std::string& text, const std::vector<std::string>& overrides = {},
                     Settings* settings = nullptr) {
  Settings scratch;
  Schema schema = SettingsSchema(settings != nullptr ? *settings : scratch);
  ConfigReader reader(schema);
  const std::string path = testing::TempDir() + "/config.yaml";
  std::ofstream(path, std::ios::binary) << text;
  if (reader.ReadFile(path)) {
    for (const std::string& setting : overrides) reader.Override(setting);
    reader.CheckRequired();
  }
  return absl::StrReplaceAll(reader.status().message(), {{path, "F"}});
}

TEST(ConfigReader, StoresEveryType) {
  Settings settings;
  EXPECT_EQ(Problems("verbose: true\ntitle: 12\nwork:\n  count: 9\n  rate: 1e-1\n"
                     "  pair: [1, 2.5]\n  buffer: 1KB\n  mode: slow\n",
                     {"work.count=4", "title=\"a \"", "work.pair=[3, 4]"}, &settings),
            "");
  EXPECT_TRUE(settings.verbose);
  EXPECT_EQ(settings.title, "a ");
  EXPECT_EQ(settings.count, 4);
  EXPECT_EQ(settings.rate, 0.1);
  EXPECT_EQ(settings.pair, (std::array<double, 2>{3, 4}));
  EXPECT_EQ(settings.buffer, 1000);
  EXPECT_EQ(settings.mode, Mode::kSlow);
}

// A wrong value in a shared file must not keep a setting from replacing it.
TEST(ConfigReader, AnOverrideReplacesAWrongValue) {
  Settings settings;
  EXPECT_EQ(Problems("title: a\nwork: {count: many}\n", {"work.count=3"}, &settings), "");
  EXPECT_EQ(settings.count, 3);
  EXPECT_NE(Problems("title: a\nwork: {count: 3}\n", {"work.count=many"}), "");
}

TEST(ConfigReader, FollowsAnchors) {
  Settings settings;
  EXPECT_EQ(Problems("title: &t hello\nverbose: &v true\nwork: {count: 2}\n", {}, &settings), "");
  EXPECT_EQ(Problems("verbose: &a true\ntitle: *a\n", {}, &settings), "");
  EXPECT_EQ(settings.title, "true");
}

TEST(ConfigReader, GathersAllProblemsInOrder) {
  EXPECT_EQ(Problems("verbose: yes\nwork:\n  count: 10\n  rate: 1\n  pair: [1]\n  mode: \"fas\"\n"
                     "  buffer: 64mb\n  cuont: 3\n  pairs: 1\n  quantity: 1\n",
                     {"work.count=0", "work.zzzz=1", "work={count: 1}", "loose", "=1"}),
            "F:1:1: verbose is yes; expected true or false\n"
            "F:4:3: work.rate is 1; expected a number of at least 0 and below 1\n"
            "F:5:3: work.pair is [1]; expected a list of 2 numbers, each at least 0\n"
            "F:6:3: work.mode is \"fas\"; expected one of fast, slow\n"
            "F:7:3: work.buffer is 64mb; expected a size such as 64MiB or 1GB, of at least 0B\n"
            "F:8:3: work.cuont is not a key; did you mean work.count?\n"
            "F:9:3: work.pairs is not a key; did you mean work.pair?\n"
            "F:10:3: work.quantity is another program's name; use work.count\n"
            "--set work.count: work.count is 0; expected an integer from 1 to 9\n"
            "--set work.zzzz: work.zzzz is not a key; expected one of count, rate, pair, buffer, "
            "mode\n"
            "--set work: work has keys of its own; set one of them: count, rate, pair, buffer, "
            "mode\n"
            "--set loose: expected --set key.path=value\n"
            "--set =1: expected --set key.path=value\n"
            "F: title is missing; expected text");
}

TEST(ConfigReader, ShowsOnlySoManyProblemsAndSoMuchOfEach) {
  std::string text = "title: t\n";
  for (int i = 0; i < 60; ++i) text += "zzz" + std::to_string(i) + "zzz: 1\n";
  const std::string problems = Problems(text);
  EXPECT_NE(problems.find("F: and 10 more problems"), std::string::npos) << problems;
  EXPECT_EQ(Problems("title: t\nverbose: \"" + std::string(1000, 'x') + "\"\n"),
            "F:2:1: verbose is \"" + std::string(60, 'x') + "...\"; expected true or false");
}

TEST(Schema, PrintsItsReference) {
  Settings settings;
  EXPECT_EQ(SettingsSchema(settings).Reference(),
            "# General\n\n"
            "| key | value | default | meaning |\n|---|---|---|---|\n"
            "| `verbose` | true or false | false | says more |\n"
            "| `title` | text | required | a title |\n"
            "\n# Work\n\n"
            "| key | value | default | meaning |\n|---|---|---|---|\n"
            "| `work.count` | an integer from 1 to 9 | 3 | how many |\n"
            "| `work.rate` | a number of at least 0 and below 1 | 0.5 | how fast |\n"
            "| `work.pair` | a list of 2 numbers, each at least 0 | [0.25, 0.75] | both |\n"
            "| `work.buffer` | a size such as 64MiB or 1GB, of at least 0B | some | how much |\n"
            "| `work.mode` | one of fast, slow | fast | how |\n");
}

}  // namespace
}  // namespace tessera
