/* Secret keys of the term hash, and the columns of byte n-grams. */
#include "hashing.h"

uint64_t secret_a = UINT64_C(0x9E3779B97F4A7C15), secret_b = UINT64_C(0xD6E8FEB86659FD93);

/* The keys are derived from Python's hash of a str, which has a secret key per process. */
int take_secrets(void)
{
    static const char *const names[2] = {"surebayes kernel, first secret", "surebayes kernel, second secret"};
    uint64_t *secrets[2] = {&secret_a, &secret_b};
    static bool taken; /* once per process: threads of other interpreters may be reading them */
    if (taken)
        return 0;
    for (int i = 0; i < 2; i++) {
        PyObject *text = PyUnicode_FromString(names[i]);
        Py_hash_t hash = text ? PyObject_Hash(text) : -1;
        Py_XDECREF(text);
        if (hash == -1 && PyErr_Occurred())
            return -1;
        *secrets[i] = ((uint64_t)hash * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    }
    taken = true;
    return 0;
}

uint64_t hash_bytes(const uint8_t *p, size_t n)
{
    uint64_t h = secret_a ^ n;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        h = fold(h ^ load8(p + i), secret_b);
    if (i < n)
        h = fold(h ^ load_part(p + i, n - i), secret_b);
    return fold(h ^ secret_b, secret_a);
}

/* Compiled twice if the loader can choose: with AVX2 the loops below take eight n-grams at a time. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&     \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* The columns of n-grams of 3 to 8 bytes: words[i] are the four bytes from i on, little-endian. `mask` is the width
 * minus 1 if the width is a power of two, otherwise all ones. */
static inline void hash_grams_of(const uint32_t *restrict words, size_t n, uint32_t mask, uint32_t *restrict out,
                                 const uint32_t size)
{
    const uint32_t tail = size > 4 && size < 8 ? 0xffffffffu >> (32 - 8 * (size & 3)) : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = size == 3 ? murmur_tail(0, words[i] & 0xffffffu) : murmur_word(0, words[i]);
        if (size == 8)
            h = murmur_word(h, words[i + 4]);
        else if (size > 4)
            h = murmur_tail(h, words[i + 4] & tail);
        h = murmur_end(h, size);
        uint32_t sign = 0u - (h >> 31);
        out[i] = ((h ^ sign) - sign) & mask;
    }
}

WIDE void hash_short_grams(const uint32_t *words, size_t n, size_t size, uint32_t mask, uint32_t *out)
{
    switch (size) { /* constants, so that the compiler specialises each loop */
    case 3: hash_grams_of(words, n, mask, out, 3); break;
    case 4: hash_grams_of(words, n, mask, out, 4); break;
    case 5: hash_grams_of(words, n, mask, out, 5); break;
    case 6: hash_grams_of(words, n, mask, out, 6); break;
    case 7: hash_grams_of(words, n, mask, out, 7); break;
    default: hash_grams_of(words, n, mask, out, 8);
    }
}
