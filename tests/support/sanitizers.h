#ifndef TESSERA_TESTS_SUPPORT_SANITIZERS_H_
#define TESSERA_TESTS_SUPPORT_SANITIZERS_H_

namespace tessera::testing {

// Whether this program checks its own memory or threads, which makes it slow and
// large.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// A test with many cases runs every so many of them.
inline constexpr int kRunEvery = kSanitized ? 5 : 1;

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_SANITIZERS_H_
