/* Parsing of character references in HTML, such as &amp; &#38; &#x26; */
#include "html.h"

static const Reference *find_reference(const unsigned char *name, Py_ssize_t size)
{
    int low = html_reference_starts[*name],
        high = html_reference_starts[*name + 1]; /* letters and digits alone come here */
    while (low < high) {
        int middle = (low + high) / 2;
        const char *other = html_references[middle].name;
        int order = strncmp((const char *)name, other, (size_t)size);
        if (order == 0 && other[size])
            order = -1;
        if (order == 0)
            return &html_references[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The character of the reference at p (an '&'), the second one if there are two (else 0), and its end; -1 if it isn't a
 * reference. */
int reference_at(const unsigned char *p, const unsigned char *end, int in_attribute, const unsigned char **stop,
                 int *second)
{
    const unsigned char *q = p + 1;
    *second = 0;
    if (q < end && *q == '#') {
        int hex = q + 1 < end && (q[1] | 32) == 'x', digits = 0;
        long code = 0;
        for (q += 1 + hex; q < end; q++, digits++) {
            int d = is_digit(*q) ? *q - '0' : hex && (unsigned)((*q | 32) - 'a') < 6 ? (*q | 32) - 'a' + 10 : -1;
            if (d < 0)
                break;
            if (code < 0x110000)
                code = code * (hex ? 16 : 10) + d;
        }
        if (!digits)
            return -1;
        *stop = q + (q < end && *q == ';');
        if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return 0xFFFD;
        return code >= 0x80 && code < 0xA0 ? html_c1[code - 0x80] : (int)code;
    }
    while (q < end && q - p <= LONGEST_REFERENCE && (is_letter(*q) || is_digit(*q)))
        q++;
    const Reference *r;
    if (q < end && *q == ';' && q > p + 1 && (r = find_reference(p + 1, q - p - 1))) {
        *stop = q + 1;
        *second = r->second;
        return r->code;
    }
    for (Py_ssize_t size = q - p - 1 < LONGEST_BARE_REFERENCE ? q - p - 1 : LONGEST_BARE_REFERENCE; size >= 2; size--) {
        if ((r = find_reference(p + 1, size)) && r->bare) {
            const unsigned char *after = p + 1 + size;
            if (in_attribute && after < end && (*after == '=' || is_letter(*after) || is_digit(*after)))
                return -1;
            *stop = after;
            return r->code;
        }
    }
    return -1;
}
