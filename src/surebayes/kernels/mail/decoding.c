/* Decoding of a part to UTF-8: quoted-printable, line ends, and the most common character sets. */
#include "decoding.h"
#include "html_tables.h"
#include "../utf8.h"

/* Whether a value starts with a word, in any case, after white space; reads a bounded number of bytes. */
bool value_starts(Span value, Py_ssize_t most, const char *word)
{
    Py_ssize_t size = value.size < most ? value.size : most, at = 0, n = (Py_ssize_t)strlen(word), i = 0;
    while (at < size && is_blank(value.at[at]))
        at++;
    while (i < n && at + i < size && to_lower(value.at[at + i]) == (unsigned char)word[i])
        i++;
    return i == n;
}

MailCoding mail_coding(Span value)
{
    if (!value.size)
        return CODING_NONE;
    if (value_starts(value, 100, "base64"))
        return CODING_BASE64;
    if (value_starts(value, 100, "quoted-printable"))
        return CODING_QUOTED;
    return value_starts(value, 100, "uu") || value_starts(value, 100, "x-uu") ? CODING_OTHER : CODING_NONE;
}

MailSet mail_set(PyObject *charset)
{
    Py_ssize_t size;
    if (charset == Py_None)
        return SET_UNDECLARED;
    const char *name = PyUnicode_AsUTF8AndSize(charset, &size);
    if (!name) {
        PyErr_Clear();
        return SET_OTHER;
    }
    if (!strcmp(name, "cp1252"))
        return SET_WINDOWS;
    if (!strcmp(name, "utf-8"))
        return SET_UTF_8;
    return !size || !strncmp(name, "iso8859-", 8) || !strncmp(name, "cp125", 5) ? SET_WITH_ASCII : SET_OTHER;
}

/* The number of bytes of the character at p; -n for n bytes of an incomplete or invalid one. */
static Py_ssize_t utf8_letter(const unsigned char *p, const unsigned char *end)
{
    unsigned char lead = *p, low = 0x80, high = 0xBF; /* range of the second byte: no surrogates, no overlong forms */
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return -1;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    Py_ssize_t n = 1, whole = (Py_ssize_t)utf8_length(lead);
    for (; n < whole; n++, low = 0x80, high = 0xBF)
        if (p + n == end || p[n] < low || p[n] > high)
            return -n;
    return whole;
}

bool is_utf8(const unsigned char *p, Py_ssize_t size)
{
    for (const unsigned char *end = p + size; p < end;) {
        Py_ssize_t n = utf8_letter(p, end);
        if (n < 0)
            return false;
        p += n;
    }
    return true;
}

/* Convert bytes in one of the two sets to UTF-8, with U+FFFD as in Python's decoders with errors="replace"; `out` has
 * room for three times the size. */
Py_ssize_t widen(const unsigned char *p, Py_ssize_t size, MailSet set, unsigned char *out)
{
    const unsigned char *end = p + size;
    unsigned char *to = out;
    while (p < end) {
#if defined(__SSE2__)
        for (; end - p >= 16; p += 16, to += 16) {
            __m128i block = _mm_loadu_si128((const __m128i *)p);
            if (_mm_movemask_epi8(block))
                break;
            _mm_storeu_si128((__m128i *)to, block);
        }
#endif
        for (; p < end && *p < 0x80; p++)
            *to++ = *p;
        if (p == end)
            break;
        if (set == SET_UTF_8) {
            Py_ssize_t n = utf8_letter(p, end);
            if (n < 0)
                to += utf8_encode(0xFFFD, to);
            else
                for (Py_ssize_t i = 0; i < n; i++)
                    *to++ = p[i];
            p += n < 0 ? -n : n;
            continue;
        }
        uint32_t c = *p++;
        to += utf8_encode(c < 0xA0 ? html_c1[c - 0x80] : c, to);
    }
    return to - out;
}

/* Flags: a byte beyond ASCII (1), a carriage return (2). */
int odd_bytes(const unsigned char *p, Py_ssize_t size)
{
    Py_ssize_t i = 0;
    unsigned high = 0, returns = 0;
#if defined(__SSE2__)
    __m128i all = _mm_setzero_si128(), found = all;
    for (; size - i >= 16; i += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(p + i));
        all = _mm_or_si128(all, block);
        found = _mm_or_si128(found, _mm_cmpeq_epi8(block, _mm_set1_epi8('\r')));
    }
    high = (unsigned)_mm_movemask_epi8(all);
    returns = (unsigned)_mm_movemask_epi8(found);
#endif
    for (; i < size; i++) {
        high |= p[i] & 0x80;
        returns |= p[i] == '\r';
    }
    return (high != 0) | (returns != 0) << 1;
}

/* Copy with \r\n replaced by \n; `out` has room for size + 16. */
Py_ssize_t copy_lines(const unsigned char *p, Py_ssize_t size, unsigned char *out)
{
    Py_ssize_t n = 0, i = 0;
    while (i < size) {
        Py_ssize_t stop = size - 1; /* the last byte has no successor */
#if defined(__SSE2__)
        for (; size - i > 16; i += 16, n += 16) {
            __m128i block = _mm_loadu_si128((const __m128i *)(p + i));
            unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8('\r')));
            _mm_storeu_si128((__m128i *)(out + n), block);
            if (mask) {
                stop = i + lowest_bit(mask);
                n += stop - i;
                i = stop;
                break;
            }
        }
#endif
        for (; i < stop && p[i] != '\r'; i++)
            out[n++] = p[i];
        if (p[i] != '\r' || i == size - 1 || p[i + 1] != '\n')
            out[n++] = p[i];
        i++;
    }
    return n;
}

/* Decode quoted-printable, like binascii.a2b_qp; the result is never longer. */
Py_ssize_t unquote_printable(const unsigned char *p, Py_ssize_t size, unsigned char *out)
{
    const unsigned char *end = p + size, *equals;
    unsigned char *to = out;
    while (p < end) {
        equals = memchr(p, '=', (size_t)(end - p));
        if (!equals)
            equals = end;
        memcpy(to, p, (size_t)(equals - p));
        to += equals - p;
        p = equals + 1;
        if (p >= end)
            break;                      /* a last equals sign is dropped */
        if (*p == '\r' || *p == '\n') { /* a soft line end, and anything between its two characters */
            p = memchr(p, '\n', (size_t)(end - p));
            if (!p)
                break;
            p++;
            continue;
        }
        int high = hex_digit(*p), low = end - p > 1 ? hex_digit(p[1]) : -1;
        if (high >= 0 && low >= 0) {
            *to++ = (unsigned char)(high << 4 | low);
            p += 2;
        } else {
            *to++ = '=';
            p += *p == '=';
        }
    }
    return to - out;
}
