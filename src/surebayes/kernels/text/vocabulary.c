/* The vocabulary: lookup and insertion of terms, many at once, and sorting of all terms. */
#include "vocabulary.h"

/* The first 8 bytes of a term of n bytes as a number that sorts as the bytes do. */
static inline uint64_t sort_key(const uint8_t *p, size_t n)
{
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < n ? p[i] : 0);
    return key;
}

/* Tables of some MB are allocated in huge pages if possible: a lookup then rarely misses the TLB (a tenth of the time).
 */
static Entry *zeroed_entries(size_t slots)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    size_t bytes = slots * sizeof(Entry), huge = (size_t)2 << 20;
    if (bytes >= 2 * huge) {
        Entry *entries = aligned_alloc(huge, bytes); /* a power of two, so a multiple */
        if (entries) {
            (void)madvise(entries, bytes, MADV_HUGEPAGE);
            memset(entries, 0, bytes);
        }
        return entries;
    }
#endif
    return calloc(slots, sizeof(Entry));
}

static Status table_resize(Table *table, size_t slots)
{
    if (slots > SIZE_MAX / sizeof(Entry))
        return NO_MEMORY;
    Entry *entries = zeroed_entries(slots);
    if (!entries)
        return NO_MEMORY;
    int shift = 64;
    for (size_t s = slots; s > 1; s >>= 1)
        shift--;
    for (size_t i = 0; i < table->slots; i++) {
        Entry e = table->entries[i];
        if (!e.head && !e.tail)
            continue;
        uint64_t hash = fold(e.head ^ secret_a, (e.tail | (uint64_t)(e.id & LONG) << 32) ^ secret_b);
        size_t slot = (size_t)(hash >> shift);
        while (entries[slot].head || entries[slot].tail)
            slot = (slot + 1) & (slots - 1);
        entries[slot] = e;
    }
    free(table->entries);
    table->entries = entries;
    table->slots = slots;
    table->shift = shift;
    return OK;
}

/* Add a token at the slot from table_find. */
Status table_insert(Table *table, Entry *slot, const Token *token)
{
    if (table->terms >= MAX_TERMS)
        return TOO_MANY_TERMS;
    if (token->size > SIZE_MAX - PADDING - table->bytes_used ||
        reserve(&table->bytes, &table->bytes_room, table->bytes_used + token->size + PADDING, 1) != OK ||
        reserve(&table->ends, &table->ends_room, table->terms + 1, sizeof *table->ends) != OK)
        return NO_MEMORY;
    if ((table->terms + 1) * 2 > table->slots) {
        Status status = table_resize(table, table->slots * 2);
        if (status != OK)
            return status;
        slot = table_find(table, token);
    }
    memcpy(table->bytes + table->bytes_used, token->text, token->size);
    table->bytes_used += token->size;
    *slot = (Entry){token->head, token->tail, (uint32_t)table->terms | token->is_long};
    table->ends[table->terms++] = table->bytes_used;
    return OK;
}

Status table_init(Table *table)
{
    Status status = reserve(&table->bytes, &table->bytes_room, PADDING, 1);
    return status == OK ? table_resize(table, 1024) : status;
}

void table_free(Table *table)
{
    free(table->entries);
    free(table->bytes);
    free(table->ends);
}

/* The id of a term without padding after it; a new term is added. */
Status table_add(Table *table, const uint8_t *text, size_t size, uint32_t *id)
{
    uint8_t local[64 + PADDING] = {0}, *copy = local;
    if (size > MAX_DOCUMENT || (size > 64 && !(copy = calloc(1, size + PADDING))))
        return NO_MEMORY;
    if (size)
        memcpy(copy, text, size);
    Status status = OK;
    if (size == 0 && table->empty)
        *id = table->empty - 1;
    else if (size == 0) {
        status = table->terms >= MAX_TERMS
                     ? TOO_MANY_TERMS
                     : reserve(&table->ends, &table->ends_room, table->terms + 1, sizeof *table->ends);
        if (status == OK) {
            *id = (uint32_t)table->terms;
            table->ends[table->terms++] = table->bytes_used;
            table->empty = (uint32_t)table->terms;
        }
    } else {
        Token token = token_of(copy, size);
        Entry *slot = table_find(table, &token);
        if (slot->head || slot->tail)
            *id = slot->id & ~LONG;
        else {
            *id = (uint32_t)table->terms;
            status = table_insert(table, slot, &token);
        }
    }
    if (copy != local)
        free(copy);
    return status;
}

/* -- many terms at once: the slots of the next few are prefetched while the first are looked up */

#define AHEAD 16

/* Cut up to AHEAD terms from the `first` on, which end at ends[] in a text with PADDING readable bytes after it. */
static size_t cut_terms(const Table *table, const uint8_t *text, const uint64_t *ends, size_t first, size_t n,
                        Token tokens[AHEAD])
{
    size_t many = n - first < AHEAD ? n - first : AHEAD;
    uint64_t start = first ? ends[first - 1] : 0;
    for (size_t k = 0; k < many; k++) {
        uint64_t end = ends[first + k];
        if (end == start) { /* the empty term has no slot */
            tokens[k].size = 0;
            continue;
        }
        tokens[k] = token_of(text + start, (size_t)(end - start));
        PREFETCH(&table->entries[tokens[k].hash >> table->shift]);
        start = end;
    }
    return many;
}

Status table_reserve(Table *table, size_t terms)
{
    size_t slots = table->slots;
    while (slots / 2 < terms && slots <= SIZE_MAX / 2)
        slots *= 2;
    return slots > table->slots ? table_resize(table, slots) : OK;
}

Status table_fill(Table *table, const uint8_t *text, const void *ends, size_t n, uint32_t *same)
{
    size_t size = 0;
    if (n > MAX_TERMS)
        return TOO_MANY_TERMS;
    if (reserve(&table->ends, &table->ends_room, n, sizeof *table->ends) != OK)
        return NO_MEMORY;
    if (n) {
        memcpy(table->ends, ends, n * sizeof *table->ends);
        size = (size_t)table->ends[n - 1];
    }
    if (size > SIZE_MAX - PADDING || reserve(&table->bytes, &table->bytes_room, size + PADDING, 1) != OK ||
        table_reserve(table, n) != OK)
        return NO_MEMORY;
    if (size)
        memcpy(table->bytes, text, size);
    memset(table->bytes + size, 0, PADDING);
    table->bytes_used = size;
    Token tokens[AHEAD];
    for (size_t first = 0; first < n; first += AHEAD) {
        size_t many = cut_terms(table, table->bytes, table->ends, first, n, tokens);
        for (size_t k = 0; k < many; k++, table->terms++) {
            uint32_t id = (uint32_t)(first + k);
            if (!tokens[k].size) {
                if (table->empty) {
                    *same = table->empty - 1;
                    return OK;
                }
                table->empty = id + 1;
                continue;
            }
            Entry *slot = table_find(table, &tokens[k]);
            if (slot->head || slot->tail) {
                *same = slot->id & ~LONG;
                return OK;
            }
            *slot = (Entry){tokens[k].head, tokens[k].tail, id | tokens[k].is_long};
        }
    }
    return OK;
}

Status table_merge(Table *table, const Table *from, uint32_t *ids)
{
    Token tokens[AHEAD];
    if (table_reserve(table, from->terms) != OK)
        return NO_MEMORY;
    for (size_t first = 0; first < from->terms; first += AHEAD) {
        size_t many = cut_terms(table, from->bytes, from->ends, first, from->terms, tokens);
        for (size_t k = 0; k < many; k++) {
            uint32_t *id = &ids[first + k];
            Status status = OK;
            Entry *slot = tokens[k].size ? table_find(table, &tokens[k]) : NULL;
            if (!slot)
                status = table_add(table, from->bytes, 0, id);
            else if (slot->head || slot->tail)
                *id = slot->id & ~LONG;
            else {
                *id = (uint32_t)table->terms;
                status = table_insert(table, slot, &tokens[k]);
            }
            if (status != OK)
                return status;
        }
    }
    return OK;
}

/* -- sorting the terms: radix sort on their first 8 bytes, then merge sort within equal ones (UTF-8 sorts as code
 * points do) */

typedef struct {
    uint64_t key;
    uint32_t id;
} SortItem;

static bool term_less(const Table *table, uint32_t a, uint32_t b)
{
    size_t m, n;
    const uint8_t *x = term_start(table, a, &m), *y = term_start(table, b, &n);
    int order = memcmp(x, y, m < n ? m : n);
    return order ? order < 0 : m < n;
}

static void radix_sort(SortItem *items, SortItem *spare, size_t n)
{
    for (int pass = 0; pass < 8; pass++) {
        size_t count[256] = {0}, at = 0;
        for (size_t i = 0; i < n; i++)
            count[items[i].key >> 8 * pass & 255]++;
        if (count[items[0].key >> 8 * pass & 255] == n)
            continue;
        for (int digit = 0; digit < 256; digit++) {
            size_t here = count[digit];
            count[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            spare[count[items[i].key >> 8 * pass & 255]++] = items[i];
        memcpy(items, spare, n * sizeof *items);
    }
}

static void merge_sort(const Table *table, SortItem *items, SortItem *spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = n - low < width ? n : low + width, high = n - low < 2 * width ? n : low + 2 * width;
            for (size_t i = low, j = middle, k = low; k < high; k++)
                spare[k] = i < middle && (j >= high || !term_less(table, items[j].id, items[i].id)) ? items[i++]
                                                                                                    : items[j++];
        }
        memcpy(items, spare, n * sizeof *items);
    }
}

/* Ids of the terms from `first` on, in the order of their bytes. */
Status table_order(const Table *table, size_t first, uint32_t *order)
{
    size_t n = table->terms - first;
    if (n == 0)
        return OK;
    SortItem *items = n <= SIZE_MAX / (2 * sizeof *items) ? malloc(2 * n * sizeof *items) : NULL;
    if (!items)
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const uint8_t *term = term_start(table, (uint32_t)(first + i), &size);
        items[i] = (SortItem){sort_key(term, size), (uint32_t)(first + i)};
    }
    radix_sort(items, items + n, n);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && items[j].key == items[i].key; j++) {}
        if (j - i > 1)
            merge_sort(table, items + i, items + n + i, j - i);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = items[i].id;
    free(items);
    return OK;
}
