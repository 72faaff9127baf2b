/* Analysis of a document: its text is lower-cased and its character classes are marked in a bit mask, the mask is split
 * into tokens, and their counts are appended as a row. */
#include "analysis.h"

/* -- prepare: lower case and class mask */

/* Copy 64 bytes to `out`, with ASCII capitals lower-cased on request; return a bit per byte, set for ASCII bytes of the
 * class. */
static inline uint64_t classify(const uint8_t *in, uint8_t *out, bool lower, int class, uint64_t *high)
{
#if defined(__SSE2__)
    uint64_t is = 0, not_ascii = 0;
#define BETWEEN(v, first, last)                                                                                        \
    _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8((first) - 1)), _mm_cmplt_epi8(v, _mm_set1_epi8((last) + 1)))
    for (int i = 0; i < 64; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(in + i)), member;
        __m128i small = _mm_or_si128(v, _mm_and_si128(BETWEEN(v, 'A', 'Z'), _mm_set1_epi8(0x20)));
        if (class == WORD)
            member = _mm_or_si128(_mm_or_si128(BETWEEN(small, 'a', 'z'), BETWEEN(v, '0', '9')),
                                  _mm_cmpeq_epi8(v, _mm_set1_epi8('_')));
        else
            member = _mm_or_si128(_mm_or_si128(BETWEEN(v, 9, 13), BETWEEN(v, 28, 31)),
                                  _mm_cmpeq_epi8(v, _mm_set1_epi8(' ')));
        _mm_storeu_si128((__m128i *)(void *)(out + i), lower ? small : v);
        is |= (uint64_t)(uint32_t)_mm_movemask_epi8(member) << i;
        not_ascii |= (uint64_t)(uint32_t)_mm_movemask_epi8(v) << i;
    }
#undef BETWEEN
    *high |= not_ascii;
    return is;
#else
    uint8_t member[64], above = 0; /* loops that compilers turn into vector code */
    for (int i = 0; i < 64; i++) {
        uint8_t c = in[i], small = (uint8_t)(c | ((uint8_t)(c - 'A') < 26) << 5);
        out[i] = lower ? small : c;
        above |= c;
        if (class == WORD)
            member[i] = ((uint8_t)(small - 'a') < 26) | ((uint8_t)(c - '0') < 10) | (c == '_');
        else
            member[i] = ((uint8_t)(c - 9) < 5) | ((uint8_t)(c - 28) < 4) | (c == ' ');
    }
    uint64_t is = 0;
    for (int i = 0; i < 64; i++)
        is |= (uint64_t)member[i] << i;
    *high |= above >> 7;
    return is;
#endif
}

static inline void mark(uint64_t *mask, size_t at, size_t length)
{
    uint64_t bits = (UINT64_C(1) << length) - 1;
    mask[at / 64] |= bits << (at & 63);
    if ((at & 63) + length > 64)
        mask[at / 64 + 1] |= bits >> (64 - (at & 63));
}

/* Record an unknown character, which Python classifies after the whole document was read: it is read at most twice. */
static Status note_unknown(Workspace *ws, uint32_t c)
{
    if (!ws->recorded && !(ws->recorded = calloc(0x110000 / 8, 1)))
        return NO_MEMORY;
    if (ws->recorded[c / 8] >> (c & 7) & 1)
        return OK;
    if (reserve(&ws->unknown, &ws->unknown_room, ws->unknown_used + 1, sizeof *ws->unknown) != OK)
        return NO_MEMORY;
    ws->recorded[c / 8] |= (uint8_t)(1 << (c & 7));
    ws->unknown[ws->unknown_used++] = c;
    return OK;
}

/* Characters beyond ASCII, one by one, by the Unicode table. */
static Status prepare_high(Workspace *ws, const Document *document, int class)
{
    const uint8_t *in = document->text;
    size_t n = document->size;
    for (size_t i = 0; i < n;) {
        if (in[i] < 0x80) {
            i++;
            while (i + 8 <= n && !(load8(in + i) & UINT64_C(0x8080808080808080)))
                i += 8;
            continue;
        }
        size_t length = utf8_length(in[i]);
        if (length == 1 || length > n - i) { /* not UTF-8, which never comes from Python */
            i++;
            continue;
        }
        uint32_t c = utf8_decode(in + i, length);
        if (c >= 0x110000) {
            i++;
            continue;
        }
        const Page *page = ws->pages[c / 256];
        uint8_t flags = page ? LOAD_FLAGS(&page->flags[c & 255]) : 0;
        if (!(flags & KNOWN)) {
            if (note_unknown(ws, c) != OK)
                return NO_MEMORY;
            i += length;
            continue;
        }
        if (document->lower) {
            if (flags & PYTHON_LOWER)
                return NEED_LOWER;
            const uint8_t *small = page->lower[c & 255];
            uint8_t *out = ws->text + i;
            out[0] = small[0], out[1] = small[1];
            if (length > 2)
                out[2] = small[2];
            if (length > 3)
                out[3] = small[3];
        }
        if (flags & class)
            mark(ws->mask, i, length);
        i += length;
    }
    return ws->unknown_used ? NEED_CHARACTERS : OK;
}

/* Fill ws->text (lower-cased) and ws->mask (a zero bit follows the last byte) for a document. */
static Status prepare(Workspace *ws, const Document *document, int class)
{
    size_t n = document->size, words = n / 64 + 1;
    if (reserve(&ws->text, &ws->text_room, words * 64 + PADDING, 1) != OK ||
        reserve(&ws->mask, &ws->mask_room, words + 1, sizeof *ws->mask) != OK)
        return NO_MEMORY;
    uint64_t high = 0;
    size_t w = 0;
    bool lower = document->lower;
    /* constant arguments, so that the compiler specialises the loops */
    if (class == WORD && lower)
        for (; w < n / 64; w++)
            ws->mask[w] = classify(document->text + w * 64, ws->text + w * 64, true, WORD, &high);
    else
        for (; w < n / 64; w++)
            ws->mask[w] = classify(document->text + w * 64, ws->text + w * 64, lower, class, &high);
    uint8_t rest[64] = {0}; /* NUL is neither a word character nor a space */
    if (n & 63)
        memcpy(rest, document->text + w * 64, n & 63);
    ws->mask[w] = classify(rest, ws->text + w * 64, lower, class, &high);
    ws->mask[words] = 0;
    memset(ws->text + words * 64, 0, PADDING);
    ws->ascii = !high;
    return high ? prepare_high(ws, document, class) : OK;
}

/* -- analyze: the tokens of a prepared document */

static inline bool is_one_character(const uint8_t *text, size_t size)
{
    return size <= 4 && utf8_length(text[0]) == size;
}

/* Store the starts and ends of runs of set bits in ws->mask (of clear ones if `inverted`) in ws->edges. `skip_bytes`
 * leaves out runs of one byte. All runs are found before any token is read: a combined loop would mispredict at every
 * word. */
Status find_runs(Workspace *ws, size_t n, bool inverted, bool skip_bytes, size_t *count)
{
    if (reserve(&ws->edges, &ws->edges_room, n + 2, sizeof *ws->edges) != OK)
        return NO_MEMORY;
    size_t words = n / 64 + 1, edges = 0;
    uint64_t flip = inverted ? ~UINT64_C(0) : 0, last = 0, last_kept = 0;
    for (size_t w = 0; w < words; w++) {
        uint64_t m = ws->mask[w] ^ flip, kept = m;
        if (inverted && w + 1 == words)
            kept &= (UINT64_C(1) << (n & 63)) - 1; /* nothing after the end */
        if (skip_bytes)
            kept &= (m << 1 | last) | (m >> 1 | ws->mask[w + 1] << 63); /* with a neighbour */
        for (uint64_t left = kept ^ (kept << 1 | last_kept); left; left &= left - 1)
            ws->edges[edges++] = (uint32_t)(w * 64) + (uint32_t)lowest_bit(left);
        last = m >> 63;
        last_kept = kept >> 63;
    }
    if (edges & 1) /* inverted, and the last run extends to the end of a mask word */
        ws->edges[edges++] = (uint32_t)n;
    *count = edges / 2;
    return OK;
}

static bool is_stop_word(const Analyzer *analyzer, const uint8_t *text, size_t size)
{
    Token token = token_of(text, size);
    const Entry *e = table_find(&analyzer->stop_words, &token);
    return e->head || e->tail;
}

/* Join the words, without stop words, by single spaces in ws->joined, so that every n-gram is one span. */
Status join_words(Workspace *ws, size_t n, size_t *count)
{
    if (reserve(&ws->joined, &ws->joined_room, n + 1 + PADDING, 1) != OK)
        return NO_MEMORY;
    size_t at = 0, runs;
    if (find_runs(ws, n, false, ws->analyzer->shortest > 1, &runs) != OK ||
        reserve(&ws->spans, &ws->spans_room, runs, sizeof *ws->spans) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < runs; i++) {
        const uint8_t *word = ws->text + ws->edges[2 * i];
        size_t size = ws->edges[2 * i + 1] - ws->edges[2 * i];
        if ((ws->analyzer->shortest > 1 && is_one_character(word, size)) ||
            (ws->analyzer->has_stop_words && is_stop_word(ws->analyzer, word, size)))
            continue;
        memcpy(ws->joined + at, word, size);
        ws->spans[(*count)++] = (Span){(uint32_t)at, (uint32_t)(at + size)};
        at += size;
        ws->joined[at++] = ' ';
    }
    memset(ws->joined + at, 0, PADDING);
    return OK;
}

static Status analyze_words(Workspace *ws, size_t n)
{
    const Analyzer *analyzer = ws->analyzer;
    size_t count = 0;
    Status status;
    if (analyzer->high == 1 && !analyzer->has_stop_words) {
        status = find_runs(ws, n, false, analyzer->shortest > 1, &count);
        bool check = analyzer->shortest > 1 && !ws->ascii;
        for (size_t i = 0; status == OK && i < count; i++) {
            const uint8_t *word = ws->text + ws->edges[2 * i];
            size_t size = ws->edges[2 * i + 1] - ws->edges[2 * i];
            if (!check || !is_one_character(word, size))
                status = put(ws, word, size);
        }
        return status;
    }
    status = join_words(ws, n, &count);
    for (size_t size = analyzer->low; size <= analyzer->high && size <= count; size++)
        for (size_t i = 0; status == OK && i + size <= count; i++) {
            uint32_t start = ws->spans[i].start;
            status = put(ws, ws->joined + start, ws->spans[i + size - 1].end - start);
        }
    return status;
}

/* The start of each character of ws->joined[start..end), and the end of the last. */
static Status find_characters(Workspace *ws, size_t start, size_t end, size_t *count)
{
    if (reserve(&ws->starts, &ws->starts_room, end - start + 1, sizeof *ws->starts) != OK)
        return NO_MEMORY;
    size_t characters = 0;
    for (size_t i = start; i < end; i++) {
        ws->starts[characters] = (uint32_t)i;
        characters += (ws->joined[i] & 0xC0) != 0x80;
    }
    /* a continuation byte leaves its offset in the next place, which the next character or the end overwrites */
    ws->starts[characters] = (uint32_t)end;
    *count = characters;
    return OK;
}

static Status put_character_ngrams(Workspace *ws, size_t size, size_t count)
{
    Status status = OK;
    for (size_t i = 0; status == OK && i + size <= count; i++)
        status = put(ws, ws->joined + ws->starts[i], ws->starts[i + size] - ws->starts[i]);
    return status;
}

/* scikit-learn's rule: two or more white-space characters become one space, a single one stays. */
static Status analyze_characters(Workspace *ws, size_t n)
{
    if (reserve(&ws->joined, &ws->joined_room, n + PADDING, 1) != OK)
        return NO_MEMORY;
    size_t at = 0, done = 0, runs, count;
    if (find_runs(ws, n, false, true, &runs) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < runs; i++) {
        size_t start = ws->edges[2 * i], end = ws->edges[2 * i + 1];
        if (is_one_character(ws->text + start, end - start))
            continue;
        memcpy(ws->joined + at, ws->text + done, start - done);
        at += start - done;
        ws->joined[at++] = ' ';
        done = end;
    }
    memcpy(ws->joined + at, ws->text + done, n - done);
    at += n - done;
    memset(ws->joined + at, 0, PADDING);
    Status status = find_characters(ws, 0, at, &count);
    for (size_t size = ws->analyzer->low; status == OK && size <= ws->analyzer->high && size <= count; size++)
        status = put_character_ngrams(ws, size, count);
    return status;
}

/* n-grams of each word between two spaces; a word shorter than n counts once, as a single token. Adjacent words share a
 * space in ws->joined, so no token's bytes are overwritten. */
static Status analyze_characters_in_words(Workspace *ws, size_t n)
{
    if (reserve(&ws->joined, &ws->joined_room, n + 2 + PADDING, 1) != OK)
        return NO_MEMORY;
    memset(ws->joined, 0, n + 2 + PADDING);
    ws->joined[0] = ' ';
    size_t at = 0, runs, count;
    Status status = find_runs(ws, n, true, false, &runs);
    for (size_t i = 0; status == OK && i < runs; i++) {
        size_t start = ws->edges[2 * i], end = ws->edges[2 * i + 1];
        size_t last = at + 1 + (end - start); /* the space after the word */
        memcpy(ws->joined + at + 1, ws->text + start, end - start);
        ws->joined[last] = ' ';
        status = find_characters(ws, at, last + 1, &count);
        for (size_t size = ws->analyzer->low; status == OK && size <= ws->analyzer->high; size++) {
            if (size >= count) {
                status = put(ws, ws->joined + at, last + 1 - at);
                break;
            }
            status = put_character_ngrams(ws, size, count);
        }
        at = last;
    }
    return status;
}

static Status analyze_bytes(Workspace *ws, const Document *document)
{
    size_t n = document->size;
    if (reserve(&ws->text, &ws->text_room, n + PADDING, 1) != OK)
        return NO_MEMORY;
    if (n)
        memcpy(ws->text, document->text, n);
    memset(ws->text + n, 0, PADDING);
    Status status = OK;
    for (size_t size = ws->analyzer->low; size <= ws->analyzer->high && size <= n; size++)
        for (size_t i = 0; status == OK && i + size <= n; i++)
            status = put(ws, ws->text + i, size);
    return status;
}

/* Append one document as a row to ws->ids and ws->counts. */
Status count_document(Workspace *ws, const Document *document)
{
    Kind kind = ws->analyzer->kind;
    if (kind != BYTES) {
        Status status = prepare(ws, document, kind == WORDS ? WORD : SPACE);
        if (status != OK)
            return status;
    }
    if (ws->presence && (kind == WORDS || kind == BYTES)) {
        ws->row = ws->used;
        ws->found_used = 0;
        return kind == WORDS ? find_word_columns(ws, document->size) : find_byte_columns(ws, document);
    }
    Status status = document_begin(ws);
    if (status == OK)
        switch (kind) {
        case WORDS: status = analyze_words(ws, document->size); break;
        case CHARS: status = analyze_characters(ws, document->size); break;
        case CHARS_IN_WORDS: status = analyze_characters_in_words(ws, document->size); break;
        case BYTES: status = analyze_bytes(ws, document); break;
        }
    if (status != OK)
        return status;
    return ws->table ? look_up(ws) : hash_columns(ws);
}
