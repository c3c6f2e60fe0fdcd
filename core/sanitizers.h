#ifndef TESSERA_CORE_SANITIZERS_H_
#define TESSERA_CORE_SANITIZERS_H_

namespace tessera {

// Whether this program checks its own memory or threads, which makes it several
// times slower and larger: tests then run fewer cases. g++ says so by a macro,
// clang by a feature.
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

// Whether that is ThreadSanitizer, the slowest.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace tessera

#endif  // TESSERA_CORE_SANITIZERS_H_
