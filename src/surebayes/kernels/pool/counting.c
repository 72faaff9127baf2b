/* Counting of many documents at once, into the entries of a table.
 *
 * The columns of a document ascend. A range of columns whose counts fit into the cache is counted over all documents,
 * then the next range, each time from the documents' last positions. This needs no lookups and yields sorted entries.
 */
#include "pool.h"

enum { DOCUMENTS_AHEAD = 8, COUNTS = 1 << 17 /* these fit into the cache */ };

typedef struct {
    const int32_t *at, *end;
    size_t label;
} Document;

/* Documents, and their totals. */
typedef struct {
    Document *documents;
    size_t n, total; /* total: the columns of all documents */
    Buffers **buffers;
    size_t n_batches;
    int64_t *totals; /* by class */
} Documents;

typedef struct {
    uint32_t key, value;
} Entry;

/* Entries under construction, and their guide. */
typedef struct {
    PyObject *entries, *guided; /* bytearrays */
    Entry *start, *next;
    uint8_t *guide;
    uint64_t last; /* key */
    int64_t columns;
} Entries;

static int add_batch(Documents *d, PyObject *batch, size_t classes)
{
    Rows rows;
    size_t n_labels;
    Buffers *buffers = d->buffers[d->n_batches] = calloc(1, sizeof *buffers);
    if (!buffers) {
        PyErr_NoMemory();
        return -1;
    }
    d->n_batches++;
    if (!PyTuple_Check(batch) || PyTuple_Size(batch) != 3) {
        PyErr_SetString(PyExc_TypeError, "a batch is a tuple (rows, labels, which)");
        return -1;
    }
    if (rows_open_unseen(&rows, buffers, PyTuple_GetItem(batch, 0), PyTuple_GetItem(batch, 2)) < 0)
        return -1;
    const int64_t *labels = buffers_add(buffers, PyTuple_GetItem(batch, 1), 8, 0, &n_labels, "labels");
    if (!labels)
        return -1;
    int good = n_labels == rows.n_documents;
    for (size_t i = 0; good && i < n_labels; i++)
        good = labels[i] >= 0 && labels[i] < (int64_t)classes;
    Document *more = realloc(d->documents, (d->n + rows.n_which + 1) * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return -1;
    }
    d->documents = more;
    for (size_t i = 0; good && i < rows.n_which; i++) {
        const int64_t place = rows_at(&rows, i), start = rows.indptr[place], end = rows.indptr[place + 1];
        d->documents[d->n++] = (Document){rows.columns + start, rows.columns + end, (size_t)labels[place]};
        d->totals[labels[place]] += end - start;
    }
    d->total += rows.total;
    if (!good)
        PyErr_SetString(PyExc_ValueError, "each document needs one label below the number of classes");
    return good ? 0 : -1;
}

static int documents_open(Documents *d, PyObject *batches, size_t classes)
{
    const size_t n = (size_t)PyList_Size(batches);
    d->buffers = calloc(n + 1, sizeof *d->buffers);
    d->totals = calloc(classes, sizeof *d->totals);
    if (!d->buffers || !d->totals) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (add_batch(d, PyList_GetItem(batches, (Py_ssize_t)i), classes) < 0)
            return -1;
    return 0;
}

static void documents_close(Documents *d)
{
    for (size_t i = 0; i < d->n_batches; i++) {
        buffers_close(d->buffers[i]);
        free(d->buffers[i]);
    }
    free(d->buffers), free(d->documents), free(d->totals);
}

/* Add `many` columns from `first` on of all documents to the counts, which are indexed by key. */
static ALWAYS_INLINE void count_part(Documents *d, uint32_t first, uint32_t many, int32_t *counts, const int bits)
{
    for (size_t i = 0; i < d->n; i++) {
        if (i + DOCUMENTS_AHEAD < d->n) {
            PREFETCH(d->documents[i + DOCUMENTS_AHEAD].at);
            PREFETCH(d->documents[i + DOCUMENTS_AHEAD].at + 16);
        }
        Document *document = &d->documents[i];
        const int32_t *at = document->at, *const end = document->end;
        int32_t *const own = counts + document->label;
        for (; at < end; at++) {
            const uint32_t column = (uint32_t)*at - first;
            if (column >= many) /* of a later range, or out of order and never counted */
                break;
            own[(size_t)column << bits]++;
        }
        document->at = at;
    }
}

/* The positions of nonzero numbers among 32, as bits. */
#ifdef __SSE2__
#include <emmintrin.h>
static inline uint32_t not_zero(const int32_t *numbers)
{
    const __m128i zero = _mm_setzero_si128();
    uint32_t zeros = 0;
    for (int half = 0; half < 2; half++) {
        __m128i four[4];
        for (int i = 0; i < 4; i++)
            four[i] = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)(numbers + 16 * half + 4 * i)),
                                      zero);
        const __m128i eight[2] = {_mm_packs_epi32(four[0], four[1]), _mm_packs_epi32(four[2], four[3])};
        zeros |= (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(eight[0], eight[1])) << 16 * half;
    }
    return ~zeros;
}
#else
static inline uint32_t not_zero(const int32_t *numbers)
{
    uint32_t there = 0;
    for (size_t i = 0; i < 32; i++)
        there |= (uint32_t)(numbers[i] != 0) << i;
    return there;
}
#endif

static inline size_t lowest_bit(uint32_t bits)
{
#if defined(__GNUC__) || defined(__clang__)
    return (size_t)__builtin_ctz(bits);
#else
    size_t i = 0;
    while (!(bits >> i & 1))
        i++;
    return i;
#endif
}

/* Append the entries, and the exact guide, of the counts of a multiple of 32 keys from `first` on. */
static void put_part(Entries *e, const int32_t *counts, uint64_t first, size_t many, int bits)
{
    for (size_t from = 0; from < many; from += 32) {
        uint32_t there = not_zero(counts + from);
        if (bits <= 5) {
            const uint32_t guide[2] = {there, (uint32_t)(e->next - e->start)};
            memcpy(e->guide + 4 + 8 * ((first + from) >> 5), guide, 8);
        }
        for (; there; there &= there - 1) {
            const size_t i = from + lowest_bit(there);
            const uint64_t key = first + i;
            e->columns += key >> bits != e->last >> bits;
            e->last = key;
            *e->next++ = (Entry){(uint32_t)key, (uint32_t)counts[i]};
        }
    }
}

static int entries_open(Entries *e, size_t documents_columns, size_t width, size_t classes)
{
    const size_t keys = width << key_bits(classes), most = documents_columns < keys ? documents_columns : keys;
    e->last = UINT64_MAX;
    e->entries = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(sizeof(Entry) * most));
    e->guided = PyByteArray_FromStringAndSize(NULL,
                                              (Py_ssize_t)(key_bits(classes) <= 5 ? 4 + 8 * ((keys + 31) / 32) : 0));
    if (!e->entries || !e->guided)
        return -1;
    e->start = e->next = (Entry *)(void *)PyByteArray_AsString(e->entries);
    e->guide = (uint8_t *)PyByteArray_AsString(e->guided);
    return 0;
}

/* (entries, guide, columns, [columns of all documents, by class]) */
static PyObject *entries_done(Entries *e, const int64_t *totals, const int64_t *more, size_t classes)
{
    const size_t n = (size_t)(e->next - e->start), words = n ? (size_t)(e->last >> 5) + 1 : 0;
    const uint32_t shift = EXACT;
    PyObject *list = PyList_New((Py_ssize_t)classes), *guide = NULL, *result = NULL;
    for (size_t k = 0; list && k < classes; k++) {
        PyObject *total = PyLong_FromLongLong(totals[k] + (more ? more[k] : 0));
        if (!total || PyList_SetItem(list, (Py_ssize_t)k, total) < 0)
            Py_CLEAR(list);
    }
    if (!list || PyByteArray_Resize(e->entries, (Py_ssize_t)(sizeof(Entry) * n)) < 0)
        goto done;
    if (pays_exactly(n, words, key_bits(classes))) {
        memcpy(e->guide, &shift, 4);
        if (PyByteArray_Resize(e->guided, (Py_ssize_t)(4 + 8 * words)) == 0)
            guide = Py_NewRef(e->guided);
    } else
        guide = guide_to((const uint8_t *)PyByteArray_AsString(e->entries), n, classes);
    if (guide)
        result = Py_BuildValue("OOLO", e->entries, guide, (long long)e->columns, list);
done:
    Py_XDECREF(guide);
    Py_XDECREF(list);
    return result;
}

/* Count all columns; return 0, or -1 if those of a document don't ascend or exceed the width. */
static ALWAYS_INLINE int count_all(Documents *d, Entries *entries, int sets, int32_t *counts, size_t width,
                                   const int bits)
{
    const size_t part = (size_t)COUNTS >> bits;
    for (size_t first = 0; first < width; first += part) {
        const size_t many = width - first < part ? width - first : part, keys = ((many << bits) + 31) / 32 * 32;
        for (int i = 0; i < sets; i++) {
            count_part(&d[i], (uint32_t)first, (uint32_t)many, counts, bits);
            put_part(&entries[i], counts, (uint64_t)first << bits, keys, bits);
        }
        memset(counts, 0, keys * sizeof *counts);
    }
    for (int i = 0; i < sets; i++)
        for (size_t j = 0; j < d[i].n; j++)
            if (d[i].documents[j].at != d[i].documents[j].end)
                return -1;
    return 0;
}

const char count_doc[] =
    "count(learnt, more, width, classes)\n--\n\n"
    "Count documents by column and class: (entries in the format of a file, their guide, the number of "
    "columns, [columns of all documents, by class]) of the `learnt` documents, and the same of these plus "
    "`more`.\n\n"
    "learnt, more: lists of batches, each (rows, the class of each document as int64, the selected "
    "documents or None). ValueError if the columns of a document don't ascend.";
PyObject *pool_count(PyObject *module, PyObject *args)
{
    PyObject *lists[2], *results[2] = {NULL, NULL}, *result = NULL;
    Py_ssize_t width, classes;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!nn:count", &PyList_Type, &lists[0], &PyList_Type, &lists[1], &width, &classes))
        return NULL;
    Documents documents[2] = {{.n = 0}, {.n = 0}};
    Entries entries[2] = {{.entries = NULL}, {.entries = NULL}};
    const int bits = key_bits(classes < 1 ? 1 : (size_t)classes);
    if (classes < 1 || classes > COUNTS || width < 1 || width > INT32_MAX ||
        (uint64_t)width << bits > (uint64_t)1 << 32) {
        PyErr_SetString(PyExc_ValueError, "keys of 32 bits are too small for these columns and values");
        return NULL;
    }
    int32_t *counts = calloc(COUNTS, sizeof *counts);
    if (!counts) {
        PyErr_NoMemory();
        goto done;
    }
    for (int i = 0; i < 2; i++)
        if (documents_open(&documents[i], lists[i], (size_t)classes) < 0)
            goto done;
    const int sets = documents[1].n ? 2 : 1; /* without more documents both sets are equal */
    for (int i = 0; i < sets; i++)
        if (entries_open(&entries[i], documents[0].total + (i ? documents[1].total : 0), (size_t)width,
                         (size_t)classes) < 0)
            goto done;
    int counted;
    Py_BEGIN_ALLOW_THREADS
    counted = bits == 1 ? count_all(documents, entries, sets, counts, (size_t)width, 1)
                        : count_all(documents, entries, sets, counts, (size_t)width, bits);
    Py_END_ALLOW_THREADS
    if (counted < 0) {
        PyErr_SetString(PyExc_ValueError, "columns of a document must ascend, and be below the width");
        goto done;
    }
    results[0] = entries_done(&entries[0], documents[0].totals, NULL, (size_t)classes);
    if (results[0] && sets == 2)
        results[1] = entries_done(&entries[1], documents[0].totals, documents[1].totals, (size_t)classes);
    else
        results[1] = Py_XNewRef(results[0]);
    if (results[1])
        result = Py_BuildValue("OO", results[0], results[1]);
done:
    for (int i = 0; i < 2; i++) {
        Py_XDECREF(results[i]);
        Py_XDECREF(entries[i].entries);
        Py_XDECREF(entries[i].guided);
        documents_close(&documents[i]);
    }
    free(counts);
    return result;
}
