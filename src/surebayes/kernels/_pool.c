/* Batches of rows against a table of counts in memory: learning them, and the opinions of experts on them.
 *
 * place: for each column its row in `counts`, or -1; counts: int32, one row a column that was ever learnt, one value a class. Both are
 * larger than the cache, so that what costs is waiting for memory: a chunk of columns is asked for at a time, which lets the misses
 * overlap. Logarithms of whole numbers come from a table. `_pool_python.py` is the same thing with numpy.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "_select.h"

enum { CHUNK = 64, AHEAD = 32, BUCKETS = 256 };

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) ((void)(p))
#endif

/* ------------------------------------------------------------------------------------------------ what comes in */

enum { MOST = 13 };

/* The buffers of a call, released together. */
typedef struct {
    Py_buffer views[MOST];
    int n;
} Buffers;

static void buffers_close(Buffers *buffers)
{
    while (buffers->n)
        PyBuffer_Release(&buffers->views[--buffers->n]);
}

/* The memory of an array of items of so many bytes, and how many there are; NULL with an exception. */
static void *buffers_add(Buffers *buffers, PyObject *from, size_t item, int writable, size_t *count, const char *name)
{
    static double nothing;
    Py_buffer *view = &buffers->views[buffers->n];
    if (PyObject_GetBuffer(from, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return NULL;
    buffers->n++;
    if (view->len && ((size_t)view->len % item || (uintptr_t)view->buf % item)) {
        PyErr_Format(PyExc_ValueError, "%s: expected an aligned array of %zu-byte items, got %zd bytes", name, item, view->len);
        return NULL;
    }
    *count = (size_t)view->len / item;
    return view->len ? view->buf : &nothing;
}

typedef struct {
    int32_t *place, *counts;
    const int32_t *columns;
    const int64_t *indptr, *which;
    size_t width, rows, classes, n_columns, n_documents, n_which, longest;
} Batch;

/* Take over the table, the rows and which of them are meant; -1 with an exception. */
static int batch_open(Batch *b, Buffers *buffers, PyObject *const *from, Py_ssize_t classes, int writable)
{
    size_t values, ends;
    if (!(b->place = buffers_add(buffers, from[0], 4, writable, &b->width, "place")) ||
        !(b->counts = buffers_add(buffers, from[1], 4, writable, &values, "counts")) ||
        !(b->indptr = buffers_add(buffers, from[2], 8, 0, &ends, "indptr")) ||
        !(b->columns = buffers_add(buffers, from[3], 4, 0, &b->n_columns, "columns")) ||
        !(b->which = buffers_add(buffers, from[4], 8, 0, &b->n_which, "which")))
        return -1;
    int good = classes > 0 && ends > 0;
    b->classes = good ? (size_t)classes : 1;
    b->rows = values / b->classes;
    b->n_documents = ends - good;
    b->longest = 0;
    for (size_t i = 0; good && i < b->n_documents; i++) {
        int64_t start = b->indptr[i], end = b->indptr[i + 1];
        good = 0 <= start && start <= end && (uint64_t)end <= b->n_columns;
    }
    for (size_t i = 0; good && i < b->n_which; i++) {
        good = 0 <= b->which[i] && (uint64_t)b->which[i] < b->n_documents;
        if (good) {
            int64_t d = b->which[i];
            size_t length = (size_t)(b->indptr[d + 1] - b->indptr[d]);
            b->longest = length > b->longest ? length : b->longest;
            uint32_t beyond = 0;
            for (const int32_t *c = b->columns + b->indptr[d], *last = c + length; c < last; c++)
                beyond |= (uint32_t)((uint32_t)*c >= b->width);
            good = !beyond;
        }
    }
    if (!good)
        PyErr_SetString(PyExc_ValueError, "a row or a column lies outside of what was given, or there is no class");
    return good ? 0 : -1;
}

/* The rows of the next columns in the table; their counts are on the way when this returns. Looks ahead into the next document too. */
static inline size_t next_rows(const Batch *b, const int32_t *columns, size_t left, int32_t *row, const size_t classes)
{
    size_t n = left < CHUNK ? left : CHUNK, ahead = (size_t)(b->columns + b->n_columns - columns);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < ahead)
            PREFETCH(b->place + columns[i + AHEAD]);
        int32_t at = b->place[columns[i]];
        row[i] = (uint32_t)at < b->rows ? at : -1;
        PREFETCH(b->counts + ((uint32_t)at < b->rows ? (size_t)at * classes : 0)); /* no branch: half of the columns may be new */
    }
    return n;
}

/* ------------------------------------------------------------------------------------------------ learning */

static inline int is_empty(const int32_t *row, const size_t classes)
{
    int32_t any = 0;
    for (size_t k = 0; k < classes; k++)
        any |= row[k];
    return !any;
}

/* Add the documents from `start` on for which there is room; the number of those that are done. */
static inline size_t add_documents(const Batch *b, const int64_t *labels, size_t start, size_t *size, size_t *alive, const size_t classes)
{
    int32_t row[CHUNK];
    size_t at = start;
    for (; at < b->n_which; at++) {
        int64_t d = b->which[at];
        const int32_t *columns = b->columns + b->indptr[d];
        size_t left = (size_t)(b->indptr[d + 1] - b->indptr[d]), n, label = (size_t)labels[d];
        if (left > b->rows - *size)
            break;
        for (; left; columns += n, left -= n) {
            n = next_rows(b, columns, left, row, classes);
            for (size_t i = 0; i < n; i++) {
                int32_t *place = b->place + columns[i];
                if (row[i] < 0 && (uint32_t)(row[i] = *place) >= b->rows)
                    *place = row[i] = (int32_t)(*size)++;
                int32_t *own = b->counts + (size_t)row[i] * classes;
                *alive += (size_t)is_empty(own, classes);
                own[label]++;
            }
        }
    }
    return at;
}

PyDoc_STRVAR(count_rows_doc,
             "count_rows(place, counts, indptr, columns, which, classes, labels, start, size)\n--\n\n"
             "Add the documents which[start:] to a table for as long as there is room: (done, size, columns that have documents now).\n\n"
             "labels: the class of each document (int64). size: rows of `counts` in use. The caller makes room and goes on from `done`.");
static PyObject *count_rows(PyObject *module, PyObject *args)
{
    PyObject *from[5], *given;
    Py_ssize_t classes, start, size, result_alive = 0;
    if (!PyArg_ParseTuple(args, "OOOOOnOnn:count_rows", &from[0], &from[1], &from[2], &from[3], &from[4], &classes, &given, &start, &size))
        return NULL;
    Buffers buffers = {.n = 0};
    Batch b;
    size_t n_labels, used = (size_t)size, alive = 0, done = 0;
    const int64_t *labels;
    int good = batch_open(&b, &buffers, from, classes, 1) == 0 && (labels = buffers_add(&buffers, given, 8, 0, &n_labels, "labels"));
    if (good) {
        good = n_labels == b.n_documents && start >= 0 && size >= 0 && used <= b.rows && b.rows <= INT32_MAX;
        for (size_t i = 0; good && i < n_labels; i++)
            good = labels[i] >= 0 && labels[i] < classes;
        if (!good)
            PyErr_SetString(PyExc_ValueError, "there must be one label below `classes` a document, and a table of at least `size` rows");
    }
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        done = b.classes == 2 ? add_documents(&b, labels, (size_t)start, &used, &alive, 2)
                              : add_documents(&b, labels, (size_t)start, &used, &alive, b.classes);
        Py_END_ALLOW_THREADS
        result_alive = (Py_ssize_t)alive;
    }
    buffers_close(&buffers);
    return good ? Py_BuildValue("nnn", (Py_ssize_t)done, (Py_ssize_t)used, result_alive) : NULL;
}

/* ------------------------------------------------------------------------------------------------ opinions */

typedef struct {
    const int64_t *contrasts, *experts; /* experts: pairs of a smoothing's index (below 0: not one of ours) and a top */
    const double *smoothings, *logs, *totals;
    size_t n_contrasts, n_experts, n_smoothings, n_logs;
    double *out;
    /* the document: the columns that have documents */
    uint32_t *counts, *all;
    double *log_odds, *sizes;
    uint8_t *bucket;
    uint32_t *kept;
    int32_t *nothing; /* the counts of a column that was never learnt */
    size_t n;
    /* the next one, which is fetched while this one is worked on */
    const int32_t *next, *next_end;
} Asked;

static inline double log_of(const double *logs, size_t known, uint32_t count, double smoothing)
{
    return count < known ? logs[count] : log((double)count + smoothing);
}

/* The counts of a document's columns, without columns that no class has. */
static inline void gather(const Batch *b, Asked *q, int64_t d, const size_t classes)
{
    int32_t row[CHUNK];
    const int32_t *columns = b->columns + b->indptr[d];
    size_t left = (size_t)(b->indptr[d + 1] - b->indptr[d]), n, used = 0;
    for (; left; columns += n, left -= n) {
        n = next_rows(b, columns, left, row, classes);
        for (size_t i = 0; i < n; i++) {
            const int32_t *own = row[i] < 0 ? q->nothing : b->counts + (size_t)row[i] * classes;
            uint32_t all = 0, *copy = q->counts + used * classes;
            for (size_t k = 0; k < classes; k++) {
                copy[k] = (uint32_t)own[k];
                all += (uint32_t)own[k];
            }
            q->all[used] = all;
            used += all > 0;
        }
    }
    q->n = used;
}

typedef struct {
    double said, weight; /* sums of |lo| lo and of |lo| */
} Sums;

/* How many strengths fall into each part of their range. */
typedef struct {
    uint32_t count[BUCKETS];
} Buckets;

/* Fill in the log-odds of class c against the rest, and where they are wanted, their buckets. */
static inline Sums fill(const Batch *b, const Asked *q, size_t c, size_t s, const double *totals, Buckets *buckets, const size_t classes)
{
    const double *logs = q->logs + s * q->n_logs, smoothing = q->smoothings[s], inside = totals[0], outside = totals[1];
    /* copies, because a byte that is written may be part of anything */
    const int32_t *next = q->next, *end = q->next_end, *place = b->place;
    const uint32_t *counts = q->counts + c, *all = q->all;
    const size_t n_logs = q->n_logs, n = q->n;
    double *log_odds = q->log_odds;
    uint8_t *bucket = q->bucket;
    double said = 0.0, weight = 0.0, scale = 0.0;
    if (buckets) {
        double most = (inside > outside ? inside : outside) - log(smoothing) + fabs(inside - outside); /* no log-odds are larger */
        memset(buckets->count, 0, sizeof buckets->count);
        scale = (BUCKETS - 1) / (most > 1e-9 ? most : 1e-9);
    }
    for (size_t i = 0; i < n; i++) {
        if (next < end)
            PREFETCH(place + *next++);
        uint32_t a = counts[i * classes], rest = all[i] - a;
        double lo = (log_of(logs, n_logs, a, smoothing) - inside) - (log_of(logs, n_logs, rest, smoothing) - outside), w = fabs(lo);
        said += w * lo;
        weight += w;
        if (buckets) {
            int at = (int)(w * scale);
            at = at < BUCKETS ? at : BUCKETS - 1;
            log_odds[i] = lo;
            bucket[i] = (uint8_t)at;
            buckets->count[at]++;
        }
    }
    return (Sums){said, weight};
}

/* The sums over the `top` strongest, of equals the first. Only those of the bucket in which the last one falls are told apart. */
static Sums strongest(const Asked *q, const Buckets *buckets, size_t top)
{
    size_t above = 0, last = BUCKETS - 1, kept = 0, in_bucket = 0;
    while (above + buckets->count[last] < top)
        above += buckets->count[last--];
    uint32_t *const places = q->kept;
    const uint8_t *const bucket = q->bucket;
    for (size_t i = 0, n = q->n; i < n; i++) {
        places[kept] = (uint32_t)i;
        kept += bucket[i] >= last;
    }
    for (size_t i = 0; i < kept; i++) {
        q->sizes[in_bucket] = fabs(q->log_odds[q->kept[i]]);
        in_bucket += q->bucket[q->kept[i]] == last;
    }
    double limit = kth_largest(q->sizes, in_bucket, top - above);
    for (size_t i = 0; i < in_bucket; i++)
        above += q->sizes[i] > limit;
    Sums sums = {0.0, 0.0};
    size_t level = top - above;
    for (size_t i = 0; i < kept; i++) {
        double lo = q->log_odds[q->kept[i]], w = fabs(lo);
        if (w > limit || (w == limit && level && level--)) {
            sums.said += w * lo;
            sums.weight += w;
        }
    }
    return sums;
}

static inline void ask(const Batch *b, const Asked *q, double *out, const size_t classes)
{
    Buckets buckets;
    for (size_t k = 0; k < q->n_contrasts; k++, out += q->n_experts) {
        if (q->contrasts[k] < 0)
            continue; /* there is nothing yet to tell this class from */
        int64_t known = -1;
        Sums whole = {0.0, 0.0};
        for (size_t e = 0; e < q->n_experts; e++) {
            int64_t s = q->experts[2 * e], top = q->experts[2 * e + 1];
            if (s < 0)
                continue;
            if (s != known) {
                const double *totals = q->totals + 2 * (k * q->n_smoothings + (size_t)s);
                int selects = 0;
                for (size_t other = e; other < q->n_experts && (q->experts[2 * other] == s || q->experts[2 * other] < 0); other++)
                    selects |= q->experts[2 * other] == s && q->experts[2 * other + 1] && (size_t)q->experts[2 * other + 1] < q->n;
                whole = selects ? fill(b, q, (size_t)q->contrasts[k], (size_t)s, totals, &buckets, classes)
                                : fill(b, q, (size_t)q->contrasts[k], (size_t)s, totals, NULL, classes);
                known = s;
            }
            Sums sums = top && (size_t)top < q->n ? strongest(q, &buckets, (size_t)top) : whole;
            out[e] = sums.weight > 0 ? sums.said / sums.weight : 0.0;
        }
    }
}

static inline void score(const Batch *b, Asked *q, const size_t classes)
{
    for (size_t i = 0; i < b->n_which; i++) {
        gather(b, q, b->which[i], classes);
        int64_t next = b->which[i + 1 < b->n_which ? i + 1 : i];
        q->next = b->columns + b->indptr[next], q->next_end = b->columns + b->indptr[next + 1];
        ask(b, q, q->out + i * q->n_contrasts * q->n_experts, classes);
    }
}

static int asked_check(const Batch *b, const Asked *q, size_t totals, size_t out)
{
    int good = totals == 2 * q->n_contrasts * q->n_smoothings && out == b->n_which * q->n_contrasts * q->n_experts;
    for (size_t k = 0; good && k < q->n_contrasts; k++)
        good = q->contrasts[k] < (int64_t)b->classes;
    for (size_t e = 0; good && e < q->n_experts; e++)
        good = q->experts[2 * e] < (int64_t)q->n_smoothings && q->experts[2 * e + 1] >= 0;
    if (!good)
        PyErr_SetString(PyExc_ValueError, "contrasts, smoothings, logs, totals, experts and out don't belong together");
    return good ? 0 : -1;
}

static int asked_room(const Batch *b, Asked *q)
{
    size_t n = b->longest + 1;
    q->counts = malloc(n * b->classes * sizeof *q->counts);
    q->all = malloc(n * sizeof *q->all);
    q->log_odds = malloc(n * sizeof *q->log_odds);
    q->sizes = malloc(n * sizeof *q->sizes);
    q->kept = malloc(n * sizeof *q->kept);
    q->bucket = malloc(n);
    q->nothing = calloc(b->classes, sizeof *q->nothing);
    return q->counts && q->all && q->log_odds && q->sizes && q->kept && q->bucket && q->nothing ? 0 : -1;
}

PyDoc_STRVAR(score_rows_doc,
             "score_rows(place, counts, indptr, columns, which, classes, contrasts, smoothings, logs, totals, experts, out)\n--\n\n"
             "Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums, for the documents `which`: sum(lo |lo|) / sum(|lo|).\n\n"
             "contrasts: the classes to tell from the rest (int64; below 0: none, its scores stay as they are). smoothings: float64.\n"
             "logs: for each smoothing the logarithms of 0, 1, 2... plus it. totals: for each contrast and smoothing the logarithms of the\n"
             "smoothed totals inside and outside. experts: for each the index of its smoothing (below 0: not asked) and how many of the\n"
             "strongest columns it takes, 0 for all (int64). out: (documents, contrasts, experts), float64.");
static PyObject *score_rows(PyObject *module, PyObject *args)
{
    PyObject *from[5], *given[6];
    Py_ssize_t classes;
    if (!PyArg_ParseTuple(args, "OOOOOnOOOOOO:score_rows", &from[0], &from[1], &from[2], &from[3], &from[4], &classes, &given[0], &given[1],
                          &given[2], &given[3], &given[4], &given[5]))
        return NULL;
    Buffers buffers = {.n = 0};
    Batch b;
    Asked q = {0};
    size_t totals, logs, experts, out;
    int good = batch_open(&b, &buffers, from, classes, 0) == 0 &&
               (q.contrasts = buffers_add(&buffers, given[0], 8, 0, &q.n_contrasts, "contrasts")) &&
               (q.smoothings = buffers_add(&buffers, given[1], 8, 0, &q.n_smoothings, "smoothings")) &&
               (q.logs = buffers_add(&buffers, given[2], 8, 0, &logs, "logs")) &&
               (q.totals = buffers_add(&buffers, given[3], 8, 0, &totals, "totals")) &&
               (q.experts = buffers_add(&buffers, given[4], 8, 0, &experts, "experts")) &&
               (q.out = buffers_add(&buffers, given[5], 8, 1, &out, "out"));
    if (good) {
        q.n_experts = experts / 2;
        q.n_logs = q.n_smoothings ? logs / q.n_smoothings : 0;
        good = asked_check(&b, &q, totals, out) == 0;
    }
    if (good && asked_room(&b, &q) < 0) {
        PyErr_NoMemory();
        good = 0;
    }
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        if (b.classes == 2)
            score(&b, &q, 2); /* a constant, so that the compiler makes loops of it */
        else
            score(&b, &q, b.classes);
        Py_END_ALLOW_THREADS
    }
    free(q.counts), free(q.all), free(q.log_odds), free(q.sizes), free(q.kept), free(q.bucket), free(q.nothing);
    buffers_close(&buffers);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"count_rows", count_rows, METH_VARARGS, count_rows_doc},
                                  {"score_rows", score_rows, METH_VARARGS, score_rows_doc},
                                  {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};
PyDoc_STRVAR(module_doc, "Batches of rows against a table of counts. See _pool_python for the same with numpy.");
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "surebayes.kernels._pool", module_doc, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pool(void) { return PyModuleDef_Init(&definition); }
