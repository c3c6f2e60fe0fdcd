#include <cuda_runtime_api.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/tensor_core_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// Where matrices lie in a warp's registers, against the figures of the PTX ISA manual
// (9.2), copied here as text. The same test is for a GPU and for its emulation.
namespace tessera::cuda_on_cpu {
namespace {

// 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating point type", A of .bf16, a
// line for each row. T5:a2 holds this column and, as a3, the next.
constexpr std::array<const char*, 16> kMatrixA = {
    // Columns 0 1   2 3     4 5     6 7     8 9    10 11   12 13   14 15
    "T0:a0  T1:a0  T2:a0  T3:a0  T0:a4  T1:a4  T2:a4  T3:a4",
    "T4:a0  T5:a0  T6:a0  T7:a0  T4:a4  T5:a4  T6:a4  T7:a4",
    "T8:a0  T9:a0  T10:a0 T11:a0 T8:a4  T9:a4  T10:a4 T11:a4",
    "T12:a0 T13:a0 T14:a0 T15:a0 T12:a4 T13:a4 T14:a4 T15:a4",
    "T16:a0 T17:a0 T18:a0 T19:a0 T16:a4 T17:a4 T18:a4 T19:a4",
    "T20:a0 T21:a0 T22:a0 T23:a0 T20:a4 T21:a4 T22:a4 T23:a4",
    "T24:a0 T25:a0 T26:a0 T27:a0 T24:a4 T25:a4 T26:a4 T27:a4",
    "T28:a0 T29:a0 T30:a0 T31:a0 T28:a4 T29:a4 T30:a4 T31:a4",
    "T0:a2  T1:a2  T2:a2  T3:a2  T0:a6  T1:a6  T2:a6  T3:a6",
    "T4:a2  T5:a2  T6:a2  T7:a2  T4:a6  T5:a6  T6:a6  T7:a6",
    "T8:a2  T9:a2  T10:a2 T11:a2 T8:a6  T9:a6  T10:a6 T11:a6",
    "T12:a2 T13:a2 T14:a2 T15:a2 T12:a6 T13:a6 T14:a6 T15:a6",
    "T16:a2 T17:a2 T18:a2 T19:a2 T16:a6 T17:a6 T18:a6 T19:a6",
    "T20:a2 T21:a2 T22:a2 T23:a2 T20:a6 T21:a6 T22:a6 T23:a6",
    "T24:a2 T25:a2 T26:a2 T27:a2 T24:a6 T25:a6 T26:a6 T27:a6",
    "T28:a2 T29:a2 T30:a2 T31:a2 T28:a6 T29:a6 T30:a6 T31:a6"};

// B of .bf16, a line for every two rows: T5:b2 holds the first and, as b3, the next.
constexpr std::array<const char*, 8> kMatrixB = {
    // Column 0 1      2      3      4      5      6      7
    "T0:b0 T4:b0 T8:b0  T12:b0 T16:b0 T20:b0 T24:b0 T28:b0",
    "T1:b0 T5:b0 T9:b0  T13:b0 T17:b0 T21:b0 T25:b0 T29:b0",
    "T2:b0 T6:b0 T10:b0 T14:b0 T18:b0 T22:b0 T26:b0 T30:b0",
    "T3:b0 T7:b0 T11:b0 T15:b0 T19:b0 T23:b0 T27:b0 T31:b0",
    "T0:b2 T4:b2 T8:b2  T12:b2 T16:b2 T20:b2 T24:b2 T28:b2",
    "T1:b2 T5:b2 T9:b2  T13:b2 T17:b2 T21:b2 T25:b2 T29:b2",
    "T2:b2 T6:b2 T10:b2 T14:b2 T18:b2 T22:b2 T26:b2 T30:b2",
    "T3:b2 T7:b2 T11:b2 T15:b2 T19:b2 T23:b2 T27:b2 T31:b2"};

// C and D of .f32, as A.
constexpr std::array<const char*, 16> kMatrixC = {
    // Columns 0 1   2 3     4 5     6 7
    "T0:c0  T1:c0  T2:c0  T3:c0",  "T4:c0  T5:c0  T6:c0  T7:c0",  "T8:c0  T9:c0  T10:c0 T11:c0",
    "T12:c0 T13:c0 T14:c0 T15:c0", "T16:c0 T17:c0 T18:c0 T19:c0", "T20:c0 T21:c0 T22:c0 T23:c0",
    "T24:c0 T25:c0 T26:c0 T27:c0", "T28:c0 T29:c0 T30:c0 T31:c0", "T0:c2  T1:c2  T2:c2  T3:c2",
    "T4:c2  T5:c2  T6:c2  T7:c2",  "T8:c2  T9:c2  T10:c2 T11:c2", "T12:c2 T13:c2 T14:c2 T15:c2",
    "T16:c2 T17:c2 T18:c2 T19:c2", "T20:c2 T21:c2 T22:c2 T23:c2", "T24:c2 T25:c2 T26:c2 T27:c2",
    "T28:c2 T29:c2 T30:c2 T31:c2"};

// "ldmatrix", figure 104, an 8 x 8 matrix of 16-bit elements, as A: one register of each thread.
constexpr std::array<const char*, 8> kLoadedMatrix = {
    // Columns 0 1  2 3    4 5    6 7
    "T0:r  T1:r  T2:r  T3:r",  "T4:r  T5:r  T6:r  T7:r",  "T8:r  T9:r  T10:r T11:r",
    "T12:r T13:r T14:r T15:r", "T16:r T17:r T18:r T19:r", "T20:r T21:r T22:r T23:r",
    "T24:r T25:r T26:r T27:r", "T28:r T29:r T30:r T31:r"};

struct Place {
  int thread;
  int element;

  auto operator<=>(const Place&) const = default;
};

// (row, column) -> place, of a figure whose cells are two elements side by side or, of
// B's, one above the other.
template <size_t kLines>
std::map<std::pair<int, int>, Place> Read(const std::array<const char*, kLines>& figure,
                                          bool downwards) {
  std::map<std::pair<int, int>, Place> places;
  for (int line = 0; line < static_cast<int>(kLines); ++line) {
    std::istringstream cells(figure[line]);
    std::string cell;
    for (int i = 0; cells >> cell; ++i) {
      Place place{.thread = 0, .element = 0};
      char name = 0;
      std::sscanf(cell.c_str(), "T%d:%c%d", &place.thread, &name, &place.element);
      for (int second = 0; second < 2; ++second) {
        const std::pair position =
            downwards ? std::pair(2 * line + second, i) : std::pair(line, 2 * i + second);
        places[position] = {place.thread, place.element + second};
      }
    }
  }
  return places;
}

constexpr uint32_t kOneAsBFloat16 = 0x3F80;

// Two elements to a register, the first in the lower half.
void SetOne(uint32_t* registers, int per_thread, const Place& place) {
  registers[place.thread * per_thread + place.element / 2] |= kOneAsBFloat16
                                                              << (place.element % 2 * 16);
}

bool HasDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

class TensorCoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(TensorCoreTest, FiguresNameEachElementOnce) {
  EXPECT_EQ(Read(kMatrixA, false).size(), 256u);
  EXPECT_EQ(Read(kMatrixB, true).size(), 128u);
  EXPECT_EQ(Read(kMatrixC, false).size(), 128u);
  std::map<Place, int> seen;
  for (const auto& [position, place] : Read(kMatrixA, false)) ++seen[place];
  EXPECT_EQ(seen.size(), 256u);
}

// The same by the formulas that stand beside the figures, with the group of a thread, its
// number in the group and an element's number.
TEST_F(TensorCoreTest, FiguresAgreeWithTheFormulas) {
  const auto at = [](const auto& places, int row, int column) { return places.at({row, column}); };
  const auto a = Read(kMatrixA, false);
  const auto b = Read(kMatrixB, true);
  const auto c = Read(kMatrixC, false);
  for (int thread = 0; thread < 32; ++thread) {
    const int group = thread >> 2;
    const int in_group = thread % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
      EXPECT_EQ(at(a, row, column), (Place{thread, i}));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(at(b, in_group * 2 + (i & 1) + (i < 2 ? 0 : 8), group), (Place{thread, i}));
      EXPECT_EQ(at(c, i < 2 ? group : group + 8, in_group * 2 + (i & 1)), (Place{thread, i}));
    }
  }
}

// A one in A and a one in B meet in one element of D, or in none.
TEST_F(TensorCoreTest, MultiplyAccumulateHasTheManualsLayout) {
  const auto a_places = Read(kMatrixA, false);
  const auto b_places = Read(kMatrixB, true);
  const auto d_places = Read(kMatrixC, false);
  TestLane lane;
  std::vector<uint32_t> b(b_places.size() * 64);
  int n = 0;
  for (const auto& [position, place] : b_places) SetOne(&b[64 * n++], 2, place);
  const DeviceArray<uint32_t> b_device(b);
  const DeviceArray<float> c_device{std::vector<float>(128)};
  const DeviceArray<float> d_device(b_places.size() * 128);
  for (const auto& [a_position, a_place] : a_places) {
    std::vector<uint32_t> a(128);
    SetOne(a.data(), 4, a_place);
    const DeviceArray<uint32_t> a_device(a);
    ASSERT_TRUE(MultiplyFragments(lane, d_device.data(), a_device.data(), b_device.data(),
                                  c_device.data(), static_cast<int>(b_places.size()))
                    .ok());
    std::vector<float> expected(d_device.size());
    n = 0;
    for (const auto& [b_position, b_place] : b_places) {
      if (a_position.second == b_position.first) {
        const Place d = d_places.at({a_position.first, b_position.second});
        expected[n * 128 + d.thread * 4 + d.element] = 1;
      }
      ++n;
    }
    ASSERT_EQ(d_device.Values(), expected) << a_position.first << ", " << a_position.second;
  }
}

TEST_F(TensorCoreTest, MultiplyAccumulateAddsC) {
  TestLane lane;
  std::vector<float> c(128);
  for (int i = 0; i < 128; ++i) c[i] = static_cast<float>(i);
  const DeviceArray<float> c_device(c);
  const DeviceArray<float> d_device(128);
  const DeviceArray<uint32_t> a_device{std::vector<uint32_t>(128)};
  const DeviceArray<uint32_t> b_device{std::vector<uint32_t>(64)};
  ASSERT_TRUE(
      MultiplyFragments(lane, d_device.data(), a_device.data(), b_device.data(), c_device.data(), 1)
          .ok());
  EXPECT_EQ(d_device.Values(), c);
}

// Rows lie apart, in an order of their own; element e is the number e.
void ExpectLoads(bool transposed) {
  constexpr int kStride = 24;
  constexpr int kCount = 32 * kStride;
  const auto places = Read(kLoadedMatrix, false);
  std::vector<uint16_t> elements(kCount);
  for (int i = 0; i < kCount; ++i) elements[i] = static_cast<uint16_t>(i);
  std::vector<int> offsets(32);
  for (int l = 0; l < 32; ++l) offsets[l] = l * 13 % 32 * kStride + l % 3 * 8;
  TestLane lane;
  const DeviceArray<uint16_t> elements_device(elements);
  const DeviceArray<int> offsets_device(offsets);
  const DeviceArray<uint32_t> registers(128);
  ASSERT_TRUE(LoadFragments(lane, registers.data(), elements_device.data(), kCount,
                            offsets_device.data(), transposed)
                  .ok());
  const std::vector<uint32_t> loaded = registers.Values();
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (const auto& [position, place] : places) {
      const int row = transposed ? position.second : position.first;
      const int column = transposed ? position.first : position.second;
      const uint32_t pair = loaded[place.thread * 4 + matrix];
      EXPECT_EQ(pair >> (place.element * 16) & 0xFFFF,
                static_cast<uint32_t>(offsets[matrix * 8 + row] + column))
          << "matrix " << matrix << ", row " << row << ", column " << column;
    }
  }
}

TEST_F(TensorCoreTest, LoadMatrix4HasTheManualsLayout) { ExpectLoads(false); }
TEST_F(TensorCoreTest, LoadMatrix4TransposedHasTheManualsLayout) { ExpectLoads(true); }

}  // namespace
}  // namespace tessera::cuda_on_cpu
