#ifndef TESSERA_CORE_SANITIZERS_H_
#define TESSERA_CORE_SANITIZERS_H_

namespace tessera {

// g++ says by a macro what it checks, clang by a feature.
#if defined(__has_feature)
#define TESSERA_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TESSERA_HAS_FEATURE(feature) 0
#endif

// Whether this program checks its own memory or threads, which makes it several
// times slower and larger: tests then run fewer cases.
#if defined(__SANITIZE_THREAD__) || TESSERA_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;  // the slowest
#else
inline constexpr bool kThreadSanitized = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || TESSERA_HAS_FEATURE(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitized;
#endif

#undef TESSERA_HAS_FEATURE

}  // namespace tessera

#endif  // TESSERA_CORE_SANITIZERS_H_
