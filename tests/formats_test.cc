// GPT-2 in the formats of others, both ways. huggingface_gpt2 is what
// make_huggingface_gpt2.py made.

#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/cpu_device.h"
#include "core/philox.h"
#include "core/safetensors.h"
#include "core/sanitizers.h"
#include "core/single_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/formats/gpt2_weights.h"
#include "nlohmann/json.hpp"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "sharding/checkpoint/load.h"
#include "sharding/trainer.h"
#include "tools/convert_checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kFixture[] = "tests/parity/huggingface_gpt2";

std::string ContentOf(const fs::path& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

void WriteFile(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// The tokens of the reference, again and again.
class GivenTokens : public BatchSource {
 public:
  explicit GivenTokens(std::vector<std::vector<int32_t>> tokens) : tokens_(std::move(tokens)) {}
  absl::Status Read(int64_t first, int64_t sequences, absl::Span<const Tensor> fields) override {
    for (int64_t s = 0; s < sequences; ++s) {
      const std::vector<int32_t>& row = tokens_[(first + s) % tokens_.size()];
      std::copy(row.begin(), row.end(),
                fields[0].as<int32_t>() + s * static_cast<int64_t>(row.size()));
      std::copy(row.begin(), row.end(),
                fields[1].as<int32_t>() + s * static_cast<int64_t>(row.size()));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::vector<int32_t>> tokens_;
};

class FormatsTest : public ::testing::Test {
 protected:
  FormatsTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/formats-XXXXXX");
    root_ = mkdtemp(pattern.data());
  }
  ~FormatsTest() override { fs::remove_all(root_); }

  // All values of a model in some format, as a checkpoint of them has it.
  std::vector<float> ImportedFrom(const std::string& from) {
    const std::string to = absl::StrCat(root_, "/imported", imported_++);
    const absl::StatusOr<std::string> made = ConvertCheckpoint(from, to, DType::kFloat32);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return {};
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(to + "/step-00000000");
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<float> all;
    for (const Manifest::Tensor& tensor : reader->manifest().tensors) {
      if (tensor.name.rfind("master.", 0) != 0) continue;
      const std::vector<float> values = *reader->ReadTensor(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  void ExpectRefusal(const std::string& from, const std::string& part) {
    const std::string to = root_ + "/refused";
    const absl::Status status = ConvertCheckpoint(from, to, DType::kFloat32).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_FALSE(fs::exists(to + "/step-00000000"));
    fs::remove_all(to);
  }

  // A copy of the fixture that may be changed.
  std::string Copy(const std::string& name) {
    const std::string folder = absl::StrCat(root_, "/", name);
    fs::copy(kFixture, folder);
    return folder;
  }

  std::string root_;
  int imported_ = 0;
};

// Logits are those of the transformers package.
TEST_F(FormatsTest, AHuggingFaceModelGivesTheSameLogits) {
  const std::string folder = root_ + "/run";
  ASSERT_TRUE(ConvertCheckpoint(kFixture, folder, DType::kFloat32).ok());
  const json reference = json::parse(ContentOf(fs::path(kFixture) / "logits.json"));
  const auto tokens = reference["tokens"].get<std::vector<std::vector<int32_t>>>();
  const auto logits = reference["logits"].get<std::vector<float>>();
  const Model model = *MakeGpt2((*OpenHuggingFaceGpt2(kFixture))->config(), DType::kFloat32);
  std::vector<float> here;
  for (const std::vector<int32_t>& row : tokens) {
    CpuDevice device({.lanes = kLanes});
    SingleCommunicator communicator;
    const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(model, TrainerOptions(), device, communicator);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const absl::StatusOr<CheckpointReader> reader =
        CheckpointReader::Open(folder + "/step-00000000");
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_TRUE(Load(*reader, **trainer).ok());
    GivenTokens source({row});
    const absl::StatusOr<Tensor> prediction = (*trainer)->Predict(source);
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    const float* const values = prediction->as<float>();
    here.insert(here.end(), values, values + ElementsOf(prediction->shape));
  }
  ASSERT_EQ(here.size(), logits.size());
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], logits[i], 1e-5) << i;
}

TEST_F(FormatsTest, WhatGoesInComesOut) {
  ASSERT_TRUE(ConvertCheckpoint(kFixture, root_ + "/run", DType::kFloat32).ok());
  const std::string checkpoint = root_ + "/run/step-00000000";
  const SafetensorsFile original =
      *SafetensorsFile::Open(absl::StrCat(kFixture, "/model.safetensors"));
  for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
    const std::string out = absl::StrCat(root_, "/", NameOf(precision));
    const absl::StatusOr<std::string> made = ConvertCheckpoint(checkpoint, out, precision);
    ASSERT_TRUE(made.ok()) << made.status();
    const SafetensorsFile exported = *SafetensorsFile::Open(out + "/model.safetensors");
    ASSERT_EQ(exported.entries().size(), original.entries().size());
    for (const auto& [name, entry] : original.entries()) {
      ASSERT_EQ(exported.entries().count(name), 1) << name;
      EXPECT_EQ(exported.entries().at(name).shape, entry.shape);
      std::vector<float> values = *original.Read(name);
      if (precision == DType::kBFloat16) {
        for (float& value : values) value = static_cast<float>(BFloat16(value));
      }
      EXPECT_EQ(*exported.Read(name), values) << name;
    }
    EXPECT_EQ((*OpenHuggingFaceGpt2(out))->config().heads, 2);
    EXPECT_THAT(ContentOf(out + "/README.md"), HasSubstr("| model.layers | 2 |"));
    // Not over something that is there.
    EXPECT_TRUE(absl::IsAlreadyExists(ConvertCheckpoint(checkpoint, out, precision).status()));
  }
}

// In several files with an index, without the prefix, with the tied matrix and masks.
TEST_F(FormatsTest, HuggingFaceInOtherWords) {
  const std::vector<float> expected = ImportedFrom(kFixture);
  const SafetensorsFile file = *SafetensorsFile::Open(absl::StrCat(kFixture, "/model.safetensors"));
  const std::string folder = root_ + "/sharded";
  fs::create_directory(folder);
  fs::copy(fs::path(kFixture) / "config.json", folder + "/config.json");
  std::vector<SafetensorsEntry> entries[2];
  std::string data[2];
  json index;
  const auto add = [&](int part, const std::string& name, const SafetensorsEntry& entry,
                       const std::vector<float>& values) {
    entries[part].push_back({name, "F32", entry.shape, entry.bytes});
    data[part].append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    index["weight_map"][name] = absl::StrCat("part", part, ".safetensors");
  };
  int number = 0;
  size_t head = 0;
  for (const auto& [name, entry] : file.entries()) {
    const std::string bare = name.substr(std::string("transformer.").size());
    add(number++ % 2, bare, entry, *file.Read(name));
    if (bare == "wte.weight") {
      head = data[1].size();
      add(1, "lm_head.weight", entry, *file.Read(name));
    }
    if (bare == "h.0.ln_1.bias") add(0, "h.0.attn.masked_bias", entry, *file.Read(name));
  }
  for (int part = 0; part < 2; ++part) {
    WriteFile(absl::StrCat(folder, "/part", part, ".safetensors"),
              SafetensorsHeader(entries[part], {}) + data[part]);
  }
  WriteFile(folder + "/model.safetensors.index.json", index.dump());
  EXPECT_EQ(ImportedFrom(folder), expected);
  // A matrix that is not tied.
  data[1][head] ^= 1;
  WriteFile(folder + "/part1.safetensors", SafetensorsHeader(entries[1], {}) + data[1]);
  ExpectRefusal(folder, "lm_head.weight differs from wte.weight");
  fs::remove(folder + "/part0.safetensors");
  ExpectRefusal(folder, "part0.safetensors: cannot open");
}

// A file of llm.c: matrices turned, layers together, a padded vocabulary.
TEST_F(FormatsTest, LlmcGivesTheSame) {
  const std::vector<float> expected = ImportedFrom(kFixture);
  const std::unique_ptr<Gpt2Weights> weights = *OpenHuggingFaceGpt2(kFixture);
  const auto [layers, heads, width, context, vocabulary, dropout] = weights->config();
  constexpr int32_t kPadded = 32;
  for (const bool half : {false, true}) {
    std::vector<int32_t> header(256);
    const std::vector<int32_t> words = {20240326, half ? 5 : 3, 8, 29, 2, 2, 16, kPadded};
    std::copy(words.begin(), words.end(), header.begin());
    std::string content(reinterpret_cast<const char*>(header.data()), 1024);
    const auto append = [&](const std::vector<float>& values) {
      for (const float value : values) {
        const auto bits = std::bit_cast<uint32_t>(value);
        const BFloat16 rounded(value);
        content.append(
            half ? reinterpret_cast<const char*>(&rounded) : reinterpret_cast<const char*>(&bits),
            half ? 2 : 4);
      }
    };
    const auto turned = [&](std::vector<float> values, int64_t rows) {
      std::vector<float> turned(values.size());
      const int64_t columns = static_cast<int64_t>(values.size()) / rows;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
      }
      return turned;
    };
    append(*weights->Read("wte.weight"));
    append(std::vector<float>((kPadded - vocabulary) * width));
    append(*weights->Read("wpe.weight"));
    for (const char* name :
         {"ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
          "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight",
          "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"}) {
      for (int64_t layer = 0; layer < layers; ++layer) {
        const std::vector<float> values = *weights->Read(absl::StrCat("h.", layer, ".", name));
        const std::string text = name;
        const bool matrix = text.find("c_") != std::string::npos && text.back() == 't';
        append(matrix ? turned(values, text == "mlp.c_proj.weight" ? 4 * width : width) : values);
      }
    }
    append(*weights->Read("ln_f.weight"));
    append(*weights->Read("ln_f.bias"));
    const std::string path = root_ + "/model.bin";
    WriteFile(path, content);
    std::vector<float> wanted = expected;
    if (half) {
      for (float& value : wanted) value = static_cast<float>(BFloat16(value));
    }
    EXPECT_EQ(ImportedFrom(path), wanted);

    WriteFile(path, content.substr(0, content.size() - 1));
    ExpectRefusal(path, "the file ends; expected ");
    // No header, however wrong, is believed.
    const RandomKey random = {3, RandomPurpose::kSample, half ? 1U : 0U};
    for (uint32_t trial = 0; trial < 64; ++trial) {
      std::string changed = content;
      changed[random.Word(2 * trial) % 32] ^=
          static_cast<char>(1 << random.Word(2 * trial + 1) % 8);
      // A smaller vocabulary, or other heads, are a model, too.
      if (changed[12] != content[12] || changed[20] != content[20]) continue;
      WriteFile(path, changed);
      ExpectRefusal(path, "model.bin: offset ");
    }
  }
}

TEST_F(FormatsTest, NarrowTypes) {
  const std::vector<uint16_t> bits = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x8000, 0x3555};
  const std::string data(reinterpret_cast<const char*>(bits.data()), 2 * bits.size());
  const std::string path = root_ + "/narrow.safetensors";
  WriteFile(path, SafetensorsHeader({{"half", "F16", {7}, 14}, {"brain", "BF16", {7}, 14}}, {}) +
                      data + data);
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->Read("half"),
            (std::vector<float>{1, -2, 0x1p-24F, 0x3ffp-24F, 65504, -0.0F, 0x1.554p-2F}));
  EXPECT_EQ(file->Read("brain")->at(0), 0x1p-7F);
  EXPECT_EQ(file->Read("brain")->at(1), -2);
  EXPECT_TRUE(absl::IsNotFound(file->Read("none").status()));
}

TEST_F(FormatsTest, ModelsThatAreNone) {
  ExpectRefusal(root_, "config.json: cannot open");
  ExpectRefusal(root_ + "/nothing", "nothing: cannot open");
  const std::string config = ContentOf(fs::path(kFixture) / "config.json");
  const std::string folder = Copy("changed");
  const auto expect = [&](const std::string& old_text, const std::string& new_text,
                          const std::string& part) {
    std::string changed = config;
    ASSERT_NE(changed.find(old_text), std::string::npos) << old_text;
    changed.replace(changed.find(old_text), old_text.size(), new_text);
    WriteFile(folder + "/config.json", changed);
    ExpectRefusal(folder, part);
  };
  expect("gelu_new", "gelu", "activation_function is \"gelu\"; expected \"gelu_new\"");
  expect("\"n_layer\": 2", "\"n_layer\": 3", "has no tensor h.2.ln_1.weight");
  expect("\"n_layer\": 2", "\"n_layer\": 1", "h.1.attn.c_attn.bias is no tensor of this model");
  expect("\"n_layer\": 2", "\"n_layer\": 2000000000", "n_layer is 2000000000; expected at most");
  expect("\"n_embd\": 16", "\"n_embd\": 18", "has the shape [29, 16]; expected [29, 18]");
  expect("\"n_inner\": null", "\"n_inner\": 7", "n_inner is 7; expected 4 n_embd = 64");
  expect("1e-05", "1e-06", "layer_norm_epsilon is 1e-06; expected 1e-05");
  expect("\"n_head\": 2", "\"heads\": 2", "n_head is missing");
  expect("{", "[", "config.json: ");
  WriteFile(folder + "/config.json", config);

  // A value that is no number.
  const std::string path = folder + "/model.safetensors";
  const std::string content = ContentOf(path);
  std::string changed = content;
  const float nan = NAN;
  changed.replace(changed.size() - 4, 4, reinterpret_cast<const char*>(&nan), 4);
  WriteFile(path, changed);
  ExpectRefusal(folder, "is nan; such a model is of no use");

  // Whatever is in the header, it is told, or it is a model.
  const RandomKey random = {4, RandomPurpose::kSample, 0};
  uint32_t draws = 0;
  const size_t header =
      8 + static_cast<unsigned char>(content[0]) + 256 * static_cast<unsigned char>(content[1]);
  for (int trial = 0; trial < (kSanitized ? 100 : 1000); ++trial) {
    changed = content;
    const size_t at = random.Word(draws++) % header;
    if (trial % 5 == 0) {
      changed.resize(at);
    } else {
      changed[at] = static_cast<char>(random.Word(draws++) % 256);
    }
    WriteFile(path, changed);
    const absl::Status status = OpenHuggingFaceGpt2(folder).status();
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
    }
  }
}

}  // namespace
}  // namespace tessera
