#ifndef TESSERA_CORE_COMMUNICATOR_CHECKS_H_
#define TESSERA_CORE_COMMUNICATOR_CHECKS_H_

#include <cstdint>
#include <vector>

#include "core/communicator.h"
#include "gtest/gtest.h"

// What the tests of every communicator check, as calls that all ranks make.
namespace tessera {

// What rank `rank` contributes as byte `i` in round `round`.
inline std::byte CheckedValue(int rank, int64_t i, int round) {
  return static_cast<std::byte>((rank * 31 + i * 7 + round * 13) % 251);
}

inline uint32_t CheckedHash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

inline void CheckAllGather(Communicator& communicator, int64_t bytes, int round, bool in_place) {
  const int rank = communicator.rank();
  std::vector<std::byte> out(communicator.size() * bytes);
  std::vector<std::byte> separate(bytes);
  std::byte* own = in_place ? out.data() + rank * bytes : separate.data();
  for (int64_t i = 0; i < bytes; ++i) own[i] = CheckedValue(rank, i, round);
  ASSERT_TRUE(communicator.AllGather(own, out.data(), bytes).ok());
  for (int64_t i = 0; i < bytes; ++i) own[i] = std::byte{255};  // nobody reads it any more
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (in_place && peer == rank) continue;
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(out[peer * bytes + i], CheckedValue(peer, i, round));
    }
  }
}

inline void CheckAllToAll(Communicator& communicator, int64_t bytes, int round) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  const int64_t stride = bytes + 3;
  std::vector<std::byte> send(size * stride);
  for (int to = 0; to < size; ++to) {
    for (int64_t i = 0; i < bytes; ++i)
      send[to * stride + i] = CheckedValue(rank * 9 + to, i, round);
  }
  std::vector<std::byte> out((size - 1) * bytes);
  ASSERT_TRUE(communicator.AllToAll(send.data(), stride, out.data(), bytes).ok());
  int64_t at = 0;
  for (int from = 0; from < size; ++from) {
    if (from == rank) continue;
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(out[at++], CheckedValue(from * 9 + rank, i, round));
    }
  }
}

inline void CheckBroadcast(Communicator& communicator, int64_t bytes, int round, int root) {
  std::vector<std::byte> data(bytes);
  for (int64_t i = 0; i < bytes; ++i) data[i] = CheckedValue(communicator.rank(), i, round);
  ASSERT_TRUE(communicator.Broadcast(data.data(), bytes, root).ok());
  for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], CheckedValue(root, i, round));
}

inline void CheckAllReduceSum(Communicator& communicator, int64_t count, int round) {
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = INT64_MAX - i * 1000 - communicator.rank() - round;
  }
  ASSERT_TRUE(communicator.AllReduceSum(absl::MakeSpan(values)).ok());
  for (int64_t i = 0; i < count; ++i) {
    uint64_t expected = 0;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      expected += static_cast<uint64_t>(INT64_MAX - i * 1000 - rank - round);
    }
    ASSERT_EQ(values[i], static_cast<int64_t>(expected));
  }
}

// The same pseudo-random collectives on every rank, and the bytes they sent.
inline void CheckRandomCollectives(Communicator& communicator, uint32_t seed) {
  int64_t sent = communicator.bytes_sent();
  const int64_t peers = communicator.size() - 1;
  for (int round = 0; round < 40; ++round) {
    const uint32_t random = CheckedHash(seed * 1000 + round);
    const int64_t bytes = random % 7 == 0 ? 0 : (random >> 8) % 3000;
    const int root = static_cast<int>((random >> 4) % communicator.size());
    switch (random % 5) {
      case 0:
        CheckAllGather(communicator, bytes, round, (random & 0x100) != 0);
        sent += peers * bytes;
        break;
      case 1:
        CheckAllToAll(communicator, bytes, round);
        sent += peers * bytes;
        break;
      case 2:
        CheckBroadcast(communicator, bytes, round, root);
        if (communicator.rank() == root) sent += peers * bytes;
        break;
      case 3:
        CheckAllReduceSum(communicator, bytes, round);
        sent += peers * 8 * bytes;
        break;
      default:
        ASSERT_TRUE(communicator.Barrier().ok());
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(communicator.bytes_sent(), sent);
}

}  // namespace tessera

#endif  // TESSERA_CORE_COMMUNICATOR_CHECKS_H_
