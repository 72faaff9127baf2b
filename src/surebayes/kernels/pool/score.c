/* Scores of documents: counts of their columns, log-odds, opinions of experts, second stages, and the pool.
 *
 * Floating-point operations have the order of `reference/pool.py`: scores are the same to the last bit.
 *
 * The counts of a document's columns are gathered in one of three ways, chosen once per call:
 *   gather_from_memory  one table of weight 1 in memory: the counts are at place[column]. While a document is scored,
 *                       those of the next are prefetched. Used for training, ViewPool and open filters.
 *   gather_from_file    one table of weight 1 in a mapped file, with at most 32 classes and an exact guide, which has a
 *                       bit per class and column for existing entries. Used for `surebayes filter` and `classify`.
 *   gather_from_stack   everything else: several tables (layers, lessons since the last merge), weights other than 1,
 *                       tables without an exact guide, and copies of the document itself.
 * All three store the columns with documents in `counts` and `all`; only the last one counts the columns without.
 */
#include "../gil.h"
#include "pool.h"

enum { BUCKETS = 256 };

/* ---------------------------------------------------------------------------------------- logarithms of small counts
 */

/* log(0 + smoothing), log(1 + smoothing), ...: a logarithm takes as long as everything else about a column, and few
 * different values occur.
 *
 * The module's state holds the most recent tables, and every call holds those of its experts: a table that was replaced
 * by a longer one, or by one for another smoothing, is freed by its last user. References are counted under the GIL. */
struct LogTable {
    double smoothing;
    size_t n, users;
    double logs[];
};

static void log_table_release(LogTable *table)
{
    if (table && --table->users == 0)
        free(table);
}

void log_tables_free(PoolState *state)
{
    for (int i = 0; i < LOG_TABLES; i++)
        log_table_release(state->log_tables[i]);
    memset(state->log_tables, 0, sizeof state->log_tables);
}

/* A table for a smoothing, with a length that pays for this number of columns; NULL without memory. */
static LogTable *log_table_acquire(PoolState *state, double smoothing, size_t columns)
{
    const size_t wanted = columns < 1000 ? 256 : columns < 200000 ? 4096 : 65536;
    LogTable **tables = state->log_tables, *table;
    int i = 0;
    while (i < LOG_TABLES - 1 && tables[i] && tables[i]->smoothing != smoothing)
        i++;
    table = tables[i] && tables[i]->smoothing == smoothing ? tables[i] : NULL;
    if (!table || table->n < wanted) {
        LogTable *longer = malloc(sizeof *longer + wanted * sizeof *longer->logs);
        if (longer) {
            *longer = (LogTable){.smoothing = smoothing, .n = wanted, .users = 1};
            for (size_t count = 0; count < wanted; count++)
                longer->logs[count] = log((double)count + smoothing);
            log_table_release(tables[i]);
            table = longer;
        }
    }
    if (!table)
        return NULL;
    memmove(tables + 1, tables, (size_t)i * sizeof *tables); /* most recently used first */
    tables[0] = table;
    table->users++;
    return table;
}

static inline double log_of(const double *logs, size_t known, uint32_t count, double smoothing)
{
    return count < known ? logs[count] : log((double)count + smoothing);
}

double log_frequencies[LOG_FREQUENCIES];

void make_log_frequencies(void)
{
    for (size_t n = 1; n < LOG_FREQUENCIES; n++)
        log_frequencies[n] = 1.0 + log((double)n);
}

/* ------------------------------------------------------------------------------------------------ a call */

typedef struct {
    double smoothing; /* of an opinion */
    LogTable *logs;
    size_t top;
    int is_stage, is_fitted, counted; /* of a second stage */
    Table table;
    const double *intercepts;
} Expert;

typedef struct {
    PoolState *state;
    Rows rows;
    Stack stack;
    size_t classes;
    int64_t alive, everything, copies, copied; /* the class of the document's `copies` additional copies */
    const int64_t *totals, *contrasts;
    size_t n_contrasts, n_experts, stride;
    Expert *experts;
    double *out;
    int shares; /* whether the share of known columns follows the experts' opinions */
    /* the document: its columns with documents */
    int32_t *counts, *more;
    uint32_t *all;
    double *log_odds, *sizes;
    uint8_t *bucket;
    uint32_t *kept;
    int32_t *nothing; /* zero counts, of an unknown column */
    size_t n, unseen;
    double *of_classes; /* see OfClasses */
    int together;       /* whether all classes are asked about, in order, by experts on all columns */
    /* the next document, prefetched in the meantime */
    const int32_t *next, *next_end;
    const char *wrong;
} Scoring;

/* ---------------------------------------------------------------------------------- counts of a document's columns */

/* Drop columns without counts. */
static inline void gather_from_memory(Scoring *q, int64_t d, const size_t classes)
{
    int32_t row[CHUNK];
    const Table *t = &q->stack.tables[0];
    const int32_t *columns = q->rows.columns + q->rows.indptr[d], *last = q->rows.columns + q->rows.n_columns;
    size_t left = (size_t)(q->rows.indptr[d + 1] - q->rows.indptr[d]), n, used = 0;
    int32_t negative = 0;
    for (; left; columns += n, left -= n) {
        n = next_rows(t, columns, left, (size_t)(last - columns), row, classes);
        for (size_t i = 0; i < n; i++) {
            const int32_t *own = row[i] < 0 ? q->nothing : t->values + (size_t)row[i] * classes;
            int32_t *copy = q->counts + used * classes;
            uint32_t all = 0;
            for (size_t k = 0; k < classes; k++) {
                copy[k] = own[k];
                negative |= own[k];
                all += (uint32_t)own[k];
            }
            q->all[used] = all;
            used += all > 0;
        }
    }
    if (negative < 0)
        q->wrong = "a table has counts below zero";
    q->n = used;
}

static ALWAYS_INLINE void gather_from_file(Scoring *q, int64_t d, const size_t classes, const int by_instruction)
{
    enum { ON_THE_WAY = 32 };
    size_t at[ON_THE_WAY];
    uint32_t there[ON_THE_WAY];
    const Table *t = &q->stack.tables[0];
    const int32_t *columns = q->rows.columns + q->rows.indptr[d], *last = q->rows.columns + q->rows.n_columns;
    const size_t n = (size_t)(q->rows.indptr[d + 1] - q->rows.indptr[d]);
    size_t used = 0;
    int32_t negative = 0;
    for (size_t start = 0; start < n; start += ON_THE_WAY) {
        const size_t some = n - start < ON_THE_WAY ? n - start : ON_THE_WAY;
        for (size_t i = 0; i < some; i++) {
            if (columns + start + i + ON_THE_WAY < last)
                PREFETCH(t->guide + 8 * ((uint64_t)(uint32_t)columns[start + i + ON_THE_WAY] << t->bits >> 5));
            there[i] = guided_to(t, (uint32_t)columns[start + i], &at[i], by_instruction);
            PREFETCH(t->entries + 8 * at[i]);
        }
        for (size_t i = 0; i < some; i++) {
            int32_t *copy = q->counts + used * classes;
            uint32_t all = 0;
            size_t entry = at[i];
            for (size_t k = 0; k < classes; k++) { /* branchless */
                const uint32_t is_there = there[i] >> k & 1;
                const int32_t value = (int32_t)(word(t->entries + 8 * entry + 4) & (0u - is_there));
                copy[k] = value;
                negative |= value;
                all += (uint32_t)value;
                entry += is_there && entry + 1 < t->n;
            }
            q->all[used] = all;
            used += all > 0;
        }
    }
    if (negative < 0)
        q->wrong = "a table has counts below zero";
    q->n = used;
}

#ifdef COUNTS_BITS
static COUNTS_BITS void gather_from_file_by_popcnt(Scoring *q, int64_t d, size_t classes)
{
    if (classes == 2)
        gather_from_file(q, d, 2, 1);
    else
        gather_from_file(q, d, classes, 1);
}
#endif

static void gather_from_stack(Scoring *q, int64_t d)
{
    const int32_t *columns = q->rows.columns + q->rows.indptr[d];
    const size_t n = (size_t)(q->rows.indptr[d + 1] - q->rows.indptr[d]);
    size_t used = 0;
    q->unseen = 0;
    q->wrong = stack_gather(&q->stack, q->classes, columns, n, q->counts, q->more);
    if (q->wrong)
        return;
    for (size_t i = 0; i < n; i++) {
        int32_t *own = q->counts + i * q->classes;
        int64_t all = 0;
        for (size_t k = 0; k < q->classes; k++) {
            if (own[k] < 0)
                q->wrong = "the tables have counts below zero";
            all += own[k];
        }
        q->unseen += all == 0;
        if (q->copies)
            own[q->copied] += (int32_t)q->copies;
        all += q->copies;
        if (all > INT32_MAX || own[q->copied] < 0)
            q->wrong = "counts exceed 2**31";
        if (all > 0) {
            memmove(q->counts + used * q->classes, own, q->classes * sizeof *own);
            q->all[used++] = (uint32_t)all;
        }
    }
    q->n = used;
}

/* ------------------------------------------------------------------------------------------------ opinions */

typedef struct {
    double weighted, weight; /* sums of |lo| lo and of |lo| */
} Sums;

/* A histogram of strengths. */
typedef struct {
    uint32_t count[BUCKETS];
} Buckets;

/* Compute the log-odds of class c against the rest, and on request their buckets. */
static inline Sums fill(const Scoring *q, size_t c, const Expert *expert, double inside, double outside,
                        Buckets *buckets, const size_t classes)
{
    const double *logs = expert->logs ? expert->logs->logs : NULL, smoothing = expert->smoothing;
    const size_t n_logs = expert->logs ? expert->logs->n : 0, n = q->n;
    /* local copies, because a write through a byte pointer may alias anything */
    const int32_t *next = q->next, *end = q->next_end, *place = q->stack.tables[0].place, *counts = q->counts + c;
    const uint32_t *all = q->all;
    double *log_odds = q->log_odds;
    uint8_t *bucket = q->bucket;
    double weighted = 0.0, weight = 0.0, scale = 0.0;
    if (buckets) {
        double most = (inside > outside ? inside : outside) - log(smoothing) +
                      fabs(inside - outside); /* the maximum of all log-odds */
        memset(buckets->count, 0, sizeof buckets->count);
        scale = (BUCKETS - 1) / (most > 1e-9 ? most : 1e-9);
    }
    for (size_t i = 0; i < n; i++) {
        if (next < end)
            PREFETCH(place + *next++);
        uint32_t a = (uint32_t)counts[i * classes], rest = all[i] - a;
        double lo = (log_of(logs, n_logs, a, smoothing) - inside) - (log_of(logs, n_logs, rest, smoothing) - outside),
               w = fabs(lo);
        weighted += w * lo;
        weight += w;
        if (buckets) {
            double at = w * scale;
            log_odds[i] = lo;
            bucket[i] = at < BUCKETS - 1 ? (uint8_t)(int)at : BUCKETS - 1;
            buckets->count[bucket[i]]++;
        }
    }
    return (Sums){weighted, weight};
}

/* The k-th largest value (k from 1) of an array, which is reordered: quickselect with the median of three as pivot. */
static double kth_largest(double *a, size_t n, size_t k)
{
    size_t low = 0, high = n - 1, want = k - 1;
    while (low < high) {
        double x = a[low], y = a[low + (high - low) / 2], z = a[high];
        double pivot = x > y ? (y > z ? y : x > z ? z : x) : (x > z ? x : y > z ? z : y);
        size_t i = low, j = high;
        for (;;) {
            while (a[i] > pivot)
                i++;
            while (a[j] < pivot)
                j--;
            if (i >= j)
                break;
            double t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
        if (want <= j)
            high = j;
        else
            low = j + 1;
    }
    return a[want];
}

/* The sums over the `top` strongest columns, ties by position. Only the bucket of the last one must be sorted. */
static Sums strongest(const Scoring *q, const Buckets *buckets, size_t top)
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
        q->sizes[in_bucket] = fabs(q->log_odds[places[i]]);
        in_bucket += bucket[places[i]] == last;
    }
    double limit = kth_largest(q->sizes, in_bucket, top - above);
    for (size_t i = 0; i < in_bucket; i++)
        above += q->sizes[i] > limit;
    Sums sums = {0.0, 0.0};
    size_t level = top - above;
    for (size_t i = 0; i < kept; i++) {
        double lo = q->log_odds[places[i]], w = fabs(lo);
        if (w > limit || (w == limit && level && level--)) {
            sums.weighted += w * lo;
            sums.weight += w;
        }
    }
    return sums;
}

/* The logarithms of the smoothed totals of a class and of the rest. */
typedef struct {
    double inside, outside;
} Rates;

static inline Rates rates_of(const Scoring *q, size_t c, size_t length, double smoothing)
{
    const int64_t more = q->copies * (int64_t)length, alive = q->alive + (q->copies ? (int64_t)q->unseen : 0);
    const double inside = (double)(q->totals[c] + (q->copied == (int64_t)c ? more : 0));
    const double all = (double)(q->everything + more), columns = (double)(alive > 1 ? alive : 1);
    return (Rates){log(inside + smoothing * columns), log((all - inside) + smoothing * columns)};
}

/* Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums: sum(lo |lo|) / sum(|lo|) over the columns. */
static inline void opinions(const Scoring *q, size_t k, size_t length, double *out, const size_t classes)
{
    Buckets buckets;
    const Expert *known = NULL;
    Sums whole = {0.0, 0.0};
    const size_t c = (size_t)q->contrasts[k];
    for (size_t e = 0; e < q->n_experts; e++) {
        const Expert *expert = &q->experts[e];
        if (expert->is_stage)
            continue;
        if (!known || known->smoothing != expert->smoothing) {
            const double smoothing = expert->smoothing;
            const Rates rates = rates_of(q, c, length, smoothing);
            int selects = 0;
            for (size_t f = e; f < q->n_experts && (q->experts[f].is_stage || q->experts[f].smoothing == smoothing);
                 f++)
                selects |= !q->experts[f].is_stage && q->experts[f].top && q->experts[f].top < q->n;
            whole = selects ? fill(q, c, expert, rates.inside, rates.outside, &buckets, classes)
                            : fill(q, c, expert, rates.inside, rates.outside, NULL, classes);
            known = expert;
        }
        Sums sums = expert->top && expert->top < q->n ? strongest(q, &buckets, expert->top) : whole;
        out[e] = sums.weight > 0 ? sums.weighted / sums.weight : 0.0;
    }
}

/* The running sums of an expert for all classes at once, each by itself in the order of the columns, as `fill` has it.
 */
typedef struct {
    double *inside, *outside, *log_inside, *log_outside, *weighted, *weight;
} OfClasses;

static OfClasses of_classes(const Scoring *q)
{
    double *at = q->of_classes;
    const size_t n = q->classes;
    return (OfClasses){at, at + n, at + 2 * n, at + 3 * n, at + 4 * n, at + 5 * n};
}

/* A column's counts are adjacent, and no addition waits for the previous one: this takes a third of the time of class
 * by class. */
WIDE static void fill_all(const Scoring *q, const Expert *expert)
{
    const OfClasses sums = of_classes(q);
    const double *logs = expert->logs ? expert->logs->logs : NULL, smoothing = expert->smoothing;
    const double *restrict inside = sums.inside, *restrict outside = sums.outside;
    double *restrict log_inside = sums.log_inside, *restrict log_outside = sums.log_outside;
    double *restrict weighted = sums.weighted, *restrict weight = sums.weight;
    const size_t n_logs = expert->logs ? expert->logs->n : 0, classes = q->classes;
    const int32_t *next = q->next, *end = q->next_end, *place = q->stack.tables[0].place;
    for (size_t i = 0; i < q->n; i++) {
        const int32_t *own = q->counts + i * classes;
        const uint32_t all = q->all[i];
        uint32_t bits = 0;
        if (next < end)
            PREFETCH(place + *next++);
        for (size_t c = 0; c < classes; c++)
            bits |= (uint32_t)own[c] | (all - (uint32_t)own[c]);
        if (bits < n_logs)
            for (size_t c = 0; c < classes; c++) {
                log_inside[c] = logs[(uint32_t)own[c]];
                log_outside[c] = logs[all - (uint32_t)own[c]];
            }
        else
            for (size_t c = 0; c < classes; c++) {
                log_inside[c] = log_of(logs, n_logs, (uint32_t)own[c], smoothing);
                log_outside[c] = log_of(logs, n_logs, all - (uint32_t)own[c], smoothing);
            }
        for (size_t c = 0; c < classes; c++) {
            const double lo = (log_inside[c] - inside[c]) - (log_outside[c] - outside[c]), w = fabs(lo);
            weighted[c] += w * lo;
            weight[c] += w;
        }
    }
}

/* The same as `opinions` of each contrast, where all classes are asked about and all columns count. */
static void opinions_together(const Scoring *q, size_t length, double *out)
{
    const OfClasses sums = of_classes(q);
    for (size_t e = 0; e < q->n_experts; e++) {
        const Expert *expert = &q->experts[e];
        if (expert->is_stage)
            continue;
        for (size_t c = 0; c < q->classes; c++) {
            const Rates rates = rates_of(q, c, length, expert->smoothing);
            sums.inside[c] = rates.inside, sums.outside[c] = rates.outside;
            sums.weighted[c] = sums.weight[c] = 0.0;
        }
        fill_all(q, expert);
        for (size_t c = 0; c < q->classes; c++)
            if (q->contrasts[c] >= 0)
                out[c * q->stride + e] = sums.weight[c] > 0 ? sums.weighted[c] / sums.weight[c] : 0.0;
    }
}

/* A linear model on rows of length 1: each column has a strength, from which the length is computed, and a coefficient
 * per contrast. */
static void second_stage(Scoring *q, Expert *expert, int64_t d, double *out, size_t step)
{
    const size_t n = (size_t)(q->rows.indptr[d + 1] - q->rows.indptr[d]), each = q->n_contrasts + 1;
    const uint32_t *times = expert->counted ? q->rows.times + q->rows.indptr[d] : NULL;
    if (table_gather(&expert->table, q->rows.columns + q->rows.indptr[d], n, q->more) < 0) {
        q->wrong = table_damaged;
        return;
    }
    double square = 0.0;
    for (size_t k = 0; k < q->n_contrasts; k++)
        q->sizes[k] = 0.0;
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, q->more + i * each, 4);
        if (value == 0.0f)
            continue;
        double often = times ? log_frequency(times[i]) : 1.0, strength = (double)value * often;
        square += strength * strength;
        for (size_t k = 0; k < q->n_contrasts; k++) {
            memcpy(&value, q->more + i * each + 1 + k, 4);
            q->sizes[k] += (double)value * often;
        }
    }
    double length = square > 0 ? sqrt(square) : 1.0;
    for (size_t k = 0; k < q->n_contrasts; k++)
        if (q->contrasts[k] >= 0)
            out[k * step] = q->sizes[k] / length + expert->intercepts[k];
}

static inline void score_documents(Scoring *q, const size_t classes)
{
    const Table *first = &q->stack.tables[0];
    const int alone = q->stack.n == 1 && q->stack.weights[0] == 1 && !q->copies;
    const int from_memory = alone && !first->in_file;
    const int from_file = alone && first->n && first->bits <= 5 && first->guide && first->guide_shift >= EXACT;
#ifdef COUNTS_BITS
    const int has_popcnt = __builtin_cpu_supports("popcnt");
#endif
    for (size_t i = 0; i < q->rows.n_which && !q->wrong; i++) {
        int64_t d = rows_at(&q->rows, i);
        size_t length = (size_t)(q->rows.indptr[d + 1] - q->rows.indptr[d]);
        double *out = q->out + i * q->n_contrasts * q->stride;
        if (from_memory) {
            gather_from_memory(q, d, classes);
            int64_t next = rows_at(&q->rows, i + 1 < q->rows.n_which ? i + 1 : i);
            q->next = q->rows.columns + q->rows.indptr[next], q->next_end = q->rows.columns + q->rows.indptr[next + 1];
        } else if (from_file) {
#ifdef COUNTS_BITS
            if (has_popcnt)
                gather_from_file_by_popcnt(q, d, classes);
            else
#endif
                gather_from_file(q, d, classes, 0);
        } else
            gather_from_stack(q, d);
        for (size_t k = 0; q->shares && k < q->n_contrasts; k++)
            out[k * q->stride + q->n_experts] = length ? (double)q->n / (double)length : 0.0;
        if (q->together && !q->wrong)
            opinions_together(q, length, out);
        for (size_t k = 0; k < q->n_contrasts && !q->wrong && !q->together; k++)
            if (q->contrasts[k] >= 0) /* else there is no other class yet */
                opinions(q, k, length, out + k * q->stride, classes);
        for (size_t e = 0; e < q->n_experts && !q->wrong; e++)
            if (q->experts[e].is_stage && q->experts[e].is_fitted)
                second_stage(q, &q->experts[e], d, out + e, q->stride);
    }
}

/* ------------------------------------------------------------------------------------------------ arguments */

static int open_stack(Scoring *q, Buffers *buffers, PyObject *sums, size_t *width)
{
    int64_t classes;
    size_t n_totals;
    if (whole_attr(sums, "classes", 2, INT32_MAX, &classes) < 0 ||
        whole_attr(sums, "alive", 0, INT32_MAX, &q->alive) < 0 ||
        !(q->totals = buffers_attr(buffers, sums, "totals", 8, 0, &n_totals)))
        return -1;
    q->classes = (size_t)classes;
    int good = n_totals == q->classes;
    for (size_t c = 0; good && c < q->classes; c++) {
        good = q->totals[c] >= 0 && q->totals[c] < (int64_t)1 << 53;
        q->everything += q->totals[c];
    }
    PyObject *stack = PyObject_GetAttrString(sums, "stack");
    if (!stack)
        return -1;
    good = stack_open(&q->stack, buffers, stack, q->classes) == 0 && good;
    *width = q->stack.width;
    Py_DECREF(stack);
    if (!good && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "sums need for each class a total of at least 0 and below 2**53");
    return good ? 0 : -1;
}

static int open_stage(const Scoring *q, Buffers *buffers, Expert *to, PyObject *expert, size_t *width)
{
    size_t n;
    int64_t counted;
    PyObject *table = PyObject_GetAttrString(expert, "table");
    if (!table)
        return -1;
    to->is_stage = 1;
    to->is_fitted = table != Py_None;
    int good = 1;
    if (to->is_fitted) {
        good = table_open(&to->table, buffers, table, q->n_contrasts + 1, 0) == 0 &&
               (to->intercepts = buffers_attr(buffers, expert, "intercepts", 8, 0, &n)) &&
               whole_attr(expert, "counted", 0, 1, &counted) == 0;
        if (good && (n != q->n_contrasts || (counted && !q->rows.times))) {
            PyErr_SetString(PyExc_ValueError,
                            "a second stage needs an intercept for each contrast, and rows that count if it does");
            good = 0;
        }
        to->counted = good && counted;
        if (good && to->table.width < *width)
            *width = to->table.width;
    }
    Py_DECREF(table);
    return good ? 0 : -1;
}

static int open_expert(const Scoring *q, Buffers *buffers, Expert *to, PyObject *expert, size_t *width)
{
    if (PyObject_HasAttrString(expert, "table"))
        return open_stage(q, buffers, to, expert, width);
    int64_t top;
    PyObject *smoothing = PyObject_GetAttrString(expert, "smoothing");
    if (!smoothing)
        return -1;
    double value = PyFloat_AsDouble(smoothing);
    Py_DECREF(smoothing);
    if (PyErr_Occurred() || whole_attr(expert, "top", 0, INT32_MAX, &top) < 0)
        return -1;
    if (!(value > 0) || !(value < 1e9)) {
        PyErr_SetString(PyExc_ValueError, "an expert needs a smoothing above 0 and below 1e9");
        return -1;
    }
    to->smoothing = value;
    to->logs = log_table_acquire(q->state, value, q->rows.total);
    to->top = (size_t)top;
    return 0;
}

static int open_experts(Scoring *q, Buffers *buffers, PyObject *experts, size_t *width)
{
    q->n_experts = (size_t)PyList_Size(experts);
    q->experts = calloc(q->n_experts + 1, sizeof *q->experts);
    if (!q->experts) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t e = 0; e < q->n_experts; e++)
        if (open_expert(q, buffers, &q->experts[e], PyList_GetItem(experts, (Py_ssize_t)e), width) < 0)
            return -1;
    return 0;
}

static int check_scoring(Scoring *q, size_t n_out, Py_ssize_t first, size_t width)
{
    size_t cells = q->rows.n_which * q->n_contrasts;
    q->stride = cells ? n_out / cells : 0;
    int good = first >= 0 && q->n_contrasts > 0 && n_out == cells * q->stride &&
               (!cells || (size_t)first + q->n_experts + (size_t)q->shares <= q->stride);
    for (size_t k = 0; good && k < q->n_contrasts; k++)
        good = q->contrasts[k] < (int64_t)q->classes;
    good = good && q->copies >= 0 && q->copies <= 1000000 && q->copied >= 0 && q->copied < (int64_t)q->classes;
    for (size_t i = 0; good && i < q->rows.n_which; i++) {
        int64_t d = rows_at(&q->rows, i);
        for (int64_t j = q->rows.indptr[d]; good && j < q->rows.indptr[d + 1]; j++)
            good = (size_t)q->rows.columns[j] < width && (!q->rows.times || q->rows.times[j] > 0);
    }
    if (!good)
        PyErr_SetString(PyExc_ValueError, "columns, contrasts, experts, copies and out have inconsistent sizes");
    q->out += first;
    return good ? 0 : -1;
}

static int make_room(Scoring *q)
{
    size_t n = q->rows.longest + 1, each = q->classes > q->n_contrasts + 1 ? q->classes : q->n_contrasts + 1;
    if (each > SIZE_MAX / 8 / n) {
        PyErr_NoMemory();
        return -1;
    }
    q->counts = malloc(n * q->classes * sizeof *q->counts);
    q->more = malloc(n * each * sizeof *q->more);
    q->all = malloc(n * sizeof *q->all);
    q->log_odds = malloc(n * sizeof *q->log_odds);
    q->sizes = malloc((n > q->n_contrasts ? n : q->n_contrasts) * sizeof *q->sizes);
    q->kept = malloc(n * sizeof *q->kept);
    q->bucket = malloc(n);
    q->nothing = calloc(q->classes, sizeof *q->nothing);
    q->of_classes = calloc(6 * q->classes, sizeof *q->of_classes);
    q->together = q->classes > 2 && q->n_contrasts == q->classes;
    for (size_t k = 0; k < q->n_contrasts; k++)
        q->together = q->together && (q->contrasts[k] < 0 || q->contrasts[k] == (int64_t)k);
    for (size_t e = 0; e < q->n_experts; e++)
        q->together = q->together && !q->experts[e].top;
    if (q->of_classes && q->counts && q->more && q->all && q->log_odds && q->sizes && q->kept && q->bucket &&
        q->nothing)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static void close_scoring(Scoring *q)
{
    free(q->counts), free(q->more), free(q->all), free(q->log_odds), free(q->sizes), free(q->kept), free(q->bucket),
        free(q->nothing), free(q->of_classes);
    stack_close(&q->stack);
    for (size_t e = 0; q->experts && e < q->n_experts; e++)
        log_table_release(q->experts[e].logs);
    free(q->experts);
}

const char score_doc[] =
    "score(rows, sums, experts, contrasts, out, first=0, which=None, copied=0, copies=0, shares=False)\n--\n\n"
    "Compute the experts' opinions on documents, for each contrast of classes. One document is a batch of "
    "one.\n\n"
    "rows: indptr, columns and times of the documents. sums: stack (a list of (table, weight), whose "
    "counts are added), classes, alive (columns with documents), totals (of the counts, by class). "
    "experts: each with a smoothing and a top (0: all columns), or with the table, intercepts and "
    "`counted` of a second stage. contrasts: the classes (int64; the scores of negative ones stay "
    "unchanged). out: (documents, contrasts, any number) float64, filled from place `first` on. which: "
    "the selected documents, int64. copied, copies: class and number of additional copies of each "
    "document. shares: whether the share of each document's columns with documents follows the experts' opinions, "
    "for each contrast.";
PyObject *pool_score(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"rows",  "sums",   "experts", "contrasts", "out", "first",
                            "which", "copied", "copies",  "shares",    NULL};
    PyObject *rows, *sums, *experts, *contrasts, *out, *which = Py_None;
    Py_ssize_t first = 0;
    long long copied = 0, copies = 0;
    int shares = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!OO|nOLLp:score", names, &rows, &sums, &PyList_Type, &experts,
                                     &contrasts, &out, &first, &which, &copied, &copies, &shares))
        return NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    if (!buffers)
        return PyErr_NoMemory();
    Scoring q = {.state = PyModule_GetState(module), .copied = copied, .copies = copies, .shares = shares};
    size_t n_out = 0, width = 0;
    int good = rows_open(&q.rows, buffers, rows, which, INT32_MAX) == 0 && open_stack(&q, buffers, sums, &width) == 0 &&
               (q.contrasts = buffers_add(buffers, contrasts, 8, 0, &q.n_contrasts, "contrasts")) &&
               open_experts(&q, buffers, experts, &width) == 0 &&
               (q.out = buffers_add(buffers, out, 8, 1, &n_out, "out")) &&
               check_scoring(&q, n_out, first, width) == 0 && make_room(&q) == 0;
    if (good) {
        PyThreadState *thread = release_gil(q.rows.n_which, q.rows.total);
        if (q.classes == 2)
            score_documents(&q, 2); /* a constant, so that the compiler unrolls loops */
        else
            score_documents(&q, q.classes);
        restore_gil(thread);
        if (q.wrong) {
            PyErr_SetString(PyExc_ValueError, q.wrong);
            good = 0;
        }
    }
    close_scoring(&q);
    buffers_close(buffers);
    free(buffers);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

/* An opinion minus its centre, bounded: z / (1 + |z| / most); unbounded if `most` is 0. */
static ALWAYS_INLINE double bounded(double opinion, const double *bound)
{
    const double z = opinion - bound[0];
    return bound[1] > 0 ? z / (1.0 + fabs(z) / bound[1]) : opinion;
}

/* The pool of a call: experts by view; with `sizes`, a share of known terms follows the experts of each view. */
typedef struct {
    const double *weights, *bias, *bounds;
    size_t contrasts, experts, n_views, each; /* `each`: 2 numbers of an expert in `bounds`, or 4 with usual shares */
    const int64_t *sizes;
    double *influences; /* of the experts, for one document */
} Pool;

/* Lower bound for the coverage of a pool; `surebayes.pool.weights` has the same number. */
static const double MIN_COVERAGE = 0.8;

/* The influence of each expert. `opinion` has the experts and shares of a document; `bounds` the experts of a contrast.
 *
 * In the pool: (share of known terms / usual share)^3, at most 1, divided by the coverage: the mean of these, weighted
 * by the experts' portions, but at least MIN_COVERAGE. With less coverage the pool's portion is smaller, and that of
 * other experts, which have no usual share, larger. */
static void find_influences(const Pool *pool, const double *opinion, const double *bounds)
{
    double whole = 0.0, covered = 0.0, beside = 0.0;
    size_t e = 0;
    for (size_t v = 0; v < pool->n_views; v++) {
        const size_t end = e + (size_t)pool->sizes[v];
        const double share = opinion[end + v];
        for (; e < end; e++) {
            const double usual = bounds[4 * e + 2], portion = bounds[4 * e + 3];
            const double known = share < usual ? share / usual : 1.0, influence = known * known * known;
            pool->influences[e] = influence;
            if (usual > 0) {
                whole += portion;
                covered += portion * influence;
            } else
                beside += portion;
        }
    }
    const double part = whole > 0 ? covered / whole : 0.0;
    const double total = whole * (part < MIN_COVERAGE ? part / MIN_COVERAGE : 1.0) + beside;
    const double out = total > 0 ? 1.0 / total : 1.0, in = out / (part < MIN_COVERAGE ? MIN_COVERAGE : part);
    for (e = 0; e < pool->experts; e++)
        pool->influences[e] *= bounds[4 * e + 2] > 0 ? in : out;
}

/* The scores of documents; 0 if one is NaN. */
static int weigh_all(const Pool *pool, const double *opinion, double *out, size_t n_out)
{
    const size_t experts = pool->experts, n_views = pool->sizes ? pool->n_views : 1;
    for (size_t i = 0; i < n_out; i++) {
        const double *weights = pool->weights + i % pool->contrasts * experts;
        const double *bounds = pool->bounds ? pool->bounds + i % pool->contrasts * experts * pool->each : NULL;
        double total = pool->bias[i % pool->contrasts];
        if (pool->each == 4)
            find_influences(pool, opinion, bounds);
        for (size_t v = 0, e = 0; v < n_views; v++) {
            for (const size_t end = pool->sizes ? e + (size_t)pool->sizes[v] : experts; e < end; e++) {
                const double said = *opinion++, counted = bounds ? bounded(said, bounds + pool->each * e) : said;
                total += weights[e] * (pool->each == 4 ? counted * pool->influences[e] : counted);
            }
            opinion += pool->sizes != NULL;
        }
        out[i] = total;
        if (!isfinite(total))
            return 0;
    }
    return 1;
}

/* Whether the sizes of all arguments fit. */
static int fits(Pool *pool, size_t n_opinions, size_t n_weights, size_t n_bounds, size_t n_out)
{
    if (!pool->contrasts || n_weights % pool->contrasts || n_out % pool->contrasts)
        return 0;
    pool->experts = n_weights / pool->contrasts;
    pool->each = pool->bounds && n_bounds == 4 * n_weights && n_weights ? 4 : 2;
    size_t in_views = 0;
    for (size_t v = 0; v < pool->n_views; v++) {
        if (pool->sizes[v] < 0 || (size_t)pool->sizes[v] > pool->experts)
            return 0;
        in_views += (size_t)pool->sizes[v];
    }
    return n_opinions == n_out * (pool->experts + pool->n_views) && (!pool->sizes || in_views == pool->experts) &&
           (!pool->bounds || n_bounds == pool->each * n_weights) && (pool->each == 2 || pool->sizes);
}

const char weigh_doc[] =
    "weigh(opinions, weights, bias, out, bounds=None, sizes=None)\n--\n\n"
    "Compute the pool's scores of documents: bias + the sum of weight times opinion, expert by expert.\n\n"
    "opinions: (documents, contrasts, experts), or with sizes (the number of experts in each view, int64) the "
    "experts of each view and then the share of its terms that are known; weights: (contrasts, experts); bias: "
    "(contrasts,); out: (documents, contrasts); bounds: (contrasts, experts, 2), the centre and the bound of an "
    "expert's opinions, with a bound of 0 for none, or (contrasts, experts, 4), also the usual share (0 for experts "
    "beside the pool) and the portion. All else float64. ValueError if a score is NaN.";
PyObject *pool_weigh(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"opinions", "weights", "bias", "out", "bounds", "sizes", NULL};
    PyObject *given[6];
    (void)module;
    given[4] = given[5] = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO|OO:weigh", names, &given[0], &given[1], &given[2], &given[3],
                                     &given[4], &given[5]))
        return NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    if (!buffers)
        return PyErr_NoMemory();
    size_t n_opinions, n_weights, n_out, n_bounds = 0;
    const double *opinion;
    double *out;
    Pool pool = {.bounds = NULL};
    int good = (opinion = buffers_add(buffers, given[0], 8, 0, &n_opinions, "opinions")) &&
               (pool.weights = buffers_add(buffers, given[1], 8, 0, &n_weights, "weights")) &&
               (pool.bias = buffers_add(buffers, given[2], 8, 0, &pool.contrasts, "bias")) &&
               (out = buffers_add(buffers, given[3], 8, 1, &n_out, "out")) &&
               (given[4] == Py_None || (pool.bounds = buffers_add(buffers, given[4], 8, 0, &n_bounds, "bounds"))) &&
               (given[5] == Py_None || (pool.sizes = buffers_add(buffers, given[5], 8, 0, &pool.n_views, "sizes")));
    if (good && !fits(&pool, n_opinions, n_weights, n_bounds, n_out)) {
        PyErr_SetString(PyExc_ValueError, "opinions, weights, bias, bounds, sizes and out have inconsistent sizes");
        good = 0;
    }
    if (good && !(pool.influences = malloc((pool.experts + 1) * sizeof *pool.influences))) {
        PyErr_NoMemory();
        good = 0;
    }
    if (good && !weigh_all(&pool, opinion, out, n_out)) {
        PyErr_SetString(PyExc_ValueError, "a score is not a number");
        good = 0;
    }
    free(pool.influences);
    buffers_close(buffers);
    free(buffers);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}
