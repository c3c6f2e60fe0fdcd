#include "kernels/copy.h"

#include <vector>

#include "core/cpu_device.h"
#include "gtest/gtest.h"

namespace tessera::kernels {
namespace {

TEST(Copy, MovesExactlyTheBytes) {
  CpuDevice device({1, 2, 0});
  for (int64_t bytes : {0, 1, 63, 4097, (1 << 20) + 1, 3 << 20}) {
    std::vector<std::byte> from(bytes + 2), to(bytes + 2, std::byte{0xee});
    for (int64_t i = 0; i < bytes; ++i) from[i + 1] = static_cast<std::byte>(i * 7 % 251);
    device.lane(0).Enqueue(
        [&] { return Copy(device.lane(0), from.data() + 1, to.data() + 1, bytes); });
    ASSERT_TRUE(device.Join().ok());
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(to[i + 1], from[i + 1]) << i;
    EXPECT_EQ(to.front(), std::byte{0xee});
    EXPECT_EQ(to.back(), std::byte{0xee});
  }
}

}  // namespace
}  // namespace tessera::kernels
