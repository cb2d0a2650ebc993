/* The least any in-place allreduce of two tensors in shared memory can do: a = b = a + b, a part a core. */
#include <stddef.h>

void floor_add(float* a, float* b, size_t begin, size_t end) {
#pragma GCC ivdep
    for (size_t i = begin; i < end; ++i) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}
