/* Presence: the distinct columns of a document, ascending. Every occurrence of a term is hashed, because sorting the
 * columns is faster than finding the distinct terms first. */
#include "analysis.h"

Status found_room(Workspace *ws, size_t more)
{
    return reserve(&ws->found, &ws->found_room, ws->found_used + more + 1, sizeof *ws->found);
}

Status find_byte_columns(Workspace *ws, const Document *document)
{
    size_t n = document->size, words = n + PADDING;
    if (reserve(&ws->text, &ws->text_room, n + PADDING + 4, 1) != OK ||
        reserve(&ws->edges, &ws->edges_room, words, sizeof *ws->edges) != OK)
        return NO_MEMORY;
    if (n)
        memcpy(ws->text, document->text, n);
    memset(ws->text + n, 0, PADDING + 4);
    for (size_t i = 0; i < words; i++)
        ws->edges[i] = little4(ws->text + i);
    uint32_t width = ws->columns;
    for (size_t size = ws->analyzer->low; size <= ws->analyzer->high && size <= n; size++) {
        size_t grams = n - size + 1;
        if (found_room(ws, grams) != OK)
            return NO_MEMORY;
        uint32_t *out = ws->found + ws->found_used;
        ws->found_used += grams;
        if (size < 3 || size > 8) {
            for (size_t i = 0; i < grams; i++)
                out[i] = column_of(murmur3(ws->text + i, size), width);
            continue;
        }
        bool divide = width & (width - 1);
        hash_short_grams(ws->edges, grams, size, divide ? 0xffffffffu : width - 1, out);
        for (size_t i = 0; divide && i < grams; i++)
            out[i] %= width;
    }
    return OK;
}

Status find_word_columns(Workspace *ws, size_t n)
{
    const Analyzer *analyzer = ws->analyzer;
    size_t count = 0;
    if (analyzer->high == 1 && analyzer->shortest == 1 && !analyzer->has_stop_words) { /* words in place */
        if (find_runs(ws, n, false, false, &count) != OK || found_room(ws, count) != OK)
            return NO_MEMORY;
        for (size_t i = 0; i < count; i++) {
            uint32_t start = ws->edges[2 * i];
            ws->found[i] = column_of(murmur3(ws->text + start, ws->edges[2 * i + 1] - start), ws->columns);
        }
        ws->found_used = count;
        return OK;
    }
    if (join_words(ws, n, &count) != OK)
        return NO_MEMORY;
    for (size_t size = analyzer->low; size <= analyzer->high && size <= count; size++) {
        size_t grams = count - size + 1;
        if (found_room(ws, grams) != OK)
            return NO_MEMORY;
        uint32_t *out = ws->found + ws->found_used;
        ws->found_used += grams;
        for (size_t i = 0; i < grams; i++) {
            uint32_t start = ws->spans[i].start;
            out[i] = column_of(murmur3(ws->joined + start, ws->spans[i + size - 1].end - start), ws->columns);
        }
    }
    return OK;
}

/* Radix sort, least significant digit first, with `passes` digits of `width` bits, both compile-time constants; returns
 * the sorted array. */
static ALWAYS_INLINE uint32_t *sort_by_digits(uint32_t *from, uint32_t *to, size_t n, const int passes, const int width)
{
    uint32_t count[4][2048];
    const uint32_t last = (1u << width) - 1;
    for (int pass = 0; pass < passes; pass++)
        memset(count[pass], 0, sizeof(uint32_t) << width);
    for (size_t i = 0; i < n; i++)
        for (int pass = 0; pass < passes; pass++)
            count[pass][from[i] >> (width * pass) & last]++;
    for (int pass = 0; pass < passes; pass++) {
        uint32_t at = 0, *places = count[pass];
        for (uint32_t digit = 0; digit <= last; digit++) {
            uint32_t here = places[digit];
            places[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            to[places[from[i] >> (width * pass) & last]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

uint32_t *sort_columns(uint32_t *from, uint32_t *spare, size_t n, uint32_t width)
{
    if (n <= 40) {
        for (size_t i = 1; i < n; i++) {
            uint32_t item = from[i];
            size_t j = i;
            for (; j && from[j - 1] > item; j--)
                from[j] = from[j - 1];
            from[j] = item;
        }
        return from;
    }
    int bits = 0;
    while (bits < 31 && (width - 1) >> bits)
        bits++;
    if (n < 1000)
        return bits <= 24 ? sort_by_digits(from, spare, n, 3, 8) : sort_by_digits(from, spare, n, 4, 8);
    return bits <= 22 ? sort_by_digits(from, spare, n, 2, 11) : sort_by_digits(from, spare, n, 3, 11);
}

size_t put_distinct(const uint32_t *sorted, size_t n, uint32_t *row, uint32_t *counts)
{
    size_t used = 0, from = 0;
    if (!n)
        return 0;
    /* branchless, since equal neighbours are unpredictable */
    for (size_t i = 1; !counts && i < n; i++) {
        row[used] = sorted[i - 1];
        used += sorted[i - 1] != sorted[i];
    }
    for (size_t i = 1; counts && i < n; i++) {
        const size_t last = sorted[i - 1] != sorted[i];
        row[used] = sorted[i - 1];
        counts[used] = (uint32_t)(i - from);
        from = last ? i : from;
        used += last;
    }
    row[used] = sorted[n - 1];
    if (counts)
        counts[used] = (uint32_t)(n - from);
    return used + 1;
}

/* Append the columns found as a row to ws->ids, and on request their numbers of occurrences to ws->counts. */
Status settle_columns(Workspace *ws, bool counted)
{
    size_t n = ws->found_used;
    if (reserve(&ws->ids, &ws->ids_room, ws->used + n + 1, sizeof *ws->ids) != OK ||
        reserve(&ws->spare, &ws->spare_room, n + 1, sizeof *ws->spare) != OK ||
        (counted && reserve(&ws->counts, &ws->counts_room, ws->used + n + 1, sizeof *ws->counts) != OK))
        return NO_MEMORY;
    if (!n)
        return OK;
    const uint32_t *sorted = sort_columns(ws->found, ws->spare, n, ws->columns);
    uint32_t *counts = counted ? (uint32_t *)ws->counts + ws->used : NULL;
    ws->used += put_distinct(sorted, n, ws->ids + ws->used, counts);
    return OK;
}
