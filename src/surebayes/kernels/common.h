/* Common definitions of all kernels: Python's limited API, unaligned loads, and growing arrays. */
#ifndef SUREBAYES_COMMON_H
#define SUREBAYES_COMMON_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

typedef enum { OK, NO_MEMORY, TOO_MANY_TERMS, NEED_CHARACTERS, NEED_LOWER } Status;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BIG_ENDIAN_HOST 1
#else
#define BIG_ENDIAN_HOST 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch(p)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define ALWAYS_INLINE inline __attribute__((always_inline)) /* so that loops are vectorised */
static inline int lowest_bit(uint64_t x)
{
    return __builtin_ctzll(x);
}
#else
#define PREFETCH(p) ((void)(p))
#define LIKELY(x) (x)
#define ALWAYS_INLINE inline
static inline int lowest_bit(uint64_t x)
{
    unsigned long i;
    _BitScanForward64(&i, x);
    return (int)i;
}
#endif

/* Number of readable bytes after the end of every buffer from which tokens are read. */
#define PADDING 16

static inline uint64_t load8(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

static inline uint32_t load4(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* The first n <= 8 bytes, the rest zero. Reads 8 bytes. */
static inline uint64_t load_part(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
#if BIG_ENDIAN_HOST
    return load8(p) & (~UINT64_C(0) << (64 - 8 * n));
#else
    return load8(p) & (~UINT64_C(0) >> (64 - 8 * n));
#endif
}

static inline Status enlarge(void *array, size_t *capacity, size_t need, size_t item)
{
    size_t room = *capacity ? *capacity : 64;
    while (room < need) {
        if (room > SIZE_MAX / 2)
            return NO_MEMORY;
        room *= 2;
    }
    if (room > SIZE_MAX / item)
        return NO_MEMORY;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, room * item);
    if (!grown)
        return NO_MEMORY;
    memcpy(array, &grown, sizeof grown);
    *capacity = room;
    return OK;
}

/* Make room for `need` items by doubling the capacity; if memory runs out, the array remains unchanged. */
static inline Status reserve(void *array, size_t *capacity, size_t need, size_t item)
{
    return LIKELY(need <= *capacity) ? OK : enlarge(array, capacity, need, item);
}

#endif
