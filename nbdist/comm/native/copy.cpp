#include "copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nbdist {

namespace {

constexpr std::size_t streaming_from = 16 * 1024;

#if defined(__x86_64__)
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::size_t whole = bytes / 64 * 64;
    for (std::size_t i = 0; i < whole; i += 64) {
        const __m128i* in = reinterpret_cast<const __m128i*>(from + i);
        __m128i* out = reinterpret_cast<__m128i*>(to + i);
        const __m128i a = _mm_loadu_si128(in);
        const __m128i b = _mm_loadu_si128(in + 1);
        const __m128i c = _mm_loadu_si128(in + 2);
        const __m128i d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
    std::memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence();  // streamed stores are not ordered by the release store that follows
}
#else
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}
#endif

}  // namespace

void copy_to_slot(std::byte* to, const std::byte* from, std::size_t bytes, bool streaming) {
    if (streaming && bytes >= streaming_from)
        stream(to, from, bytes);
    else if (bytes > 0)
        std::memcpy(to, from, bytes);
}

}  // namespace nbdist
