/* Linear support vector machines on rows of length 1, one per contrast, which fit the second stages.
 *
 * Dual coordinate descent for the squared hinge loss (Hsieh et al., ICML 2008), as in LIBLINEAR, with another memory
 * layout: a row is a list of places, 4 bytes each, because the value of an entry is that of its column; the machines of
 * all classes visit a row together; a column has the layout of a second stage's table, its strength and for each
 * contrast strength times coefficient.
 *
 * Numbers have 4 bytes in memory. The sums over a row have 8 for one contrast and 4 for several, whose machines are
 * bound by memory. The order of all sums is that of `reference/svm.py`: the results are equal to the last bit.
 */
#include "pool.h"

typedef struct {
    size_t n, contrasts, each;
    size_t *start; /* the first entry of each row */
    uint32_t *at;  /* the place of each entry in the table */
    float *often;  /* 1 + log of the number of occurrences, or NULL */
    double *scale; /* 1 / length of each row */
    float *values;
    const int64_t *labels, *wanted;
    const double *costs;
    double *alpha, *bias, *margin, *step;
    float *sums;
    uint32_t *order;
} Machine;

enum { LANES = 4, MOST_LANES = 8 };
enum { NEXT = 64 }; /* entries that are fetched ahead */

#if defined(__GNUC__) || defined(__clang__)
#define LANES_ARE_VECTORS
typedef float Lanes __attribute__((vector_size(4 * LANES)));
#else
typedef struct {
    float of[LANES];
} Lanes;
#endif

/* ------------------------------------------------------------------------------------------------ rows */

static int take_rows(Machine *m, const Rows *rows, const Table *table, int counted)
{
    size_t used = 0, most = rows->total;
    int32_t row[CHUNK];
    const int32_t *last = rows->columns + rows->n_columns;
    m->n = rows->n_which;
    m->start = malloc((m->n + 1) * sizeof *m->start);
    m->at = malloc((most + 1) * sizeof *m->at);
    m->often = counted ? malloc((most + 1) * sizeof *m->often) : NULL;
    m->scale = malloc((m->n + 1) * sizeof *m->scale);
    if (!m->start || !m->at || (counted && !m->often) || !m->scale)
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        int64_t d = rows_at(rows, i);
        double square = 0.0;
        m->start[i] = used;
        for (int64_t j = rows->indptr[d], end = rows->indptr[d + 1], n; j < end; j += n) {
            const int32_t *columns = rows->columns + j;
            n = (int64_t)next_rows(table, columns, (size_t)(end - j), (size_t)(last - columns), row, m->each);
            for (int64_t k = 0; k < n; k++) { /* branchless: half of the columns may have no strength */
                double strength = row[k] < 0 ? 0.0 : (double)m->values[(size_t)row[k] * m->each];
                m->at[used] = (uint32_t)row[k];
                const size_t place = used;
                used += strength != 0.0;
                if (counted) {
                    m->often[place] = (float)log_frequency(rows->times[j + k]);
                    strength *= (double)m->often[place];
                }
                square += strength * strength;
            }
        }
        m->scale[i] = square > 0 ? 1.0 / sqrt(square) : 0.0;
    }
    m->start[m->n] = used;
    return 0;
}

/* ------------------------------------------------------------------------------------------------ one row */

/* The margin of one contrast, in four partial sums, so that additions don't wait for each other. */
static double margin_of_one(const Machine *m, size_t i)
{
    const size_t end = m->start[i + 1];
    const float *restrict values = m->values + 1;
    const uint32_t *restrict at = m->at;
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    size_t j = m->start[i];
    if (m->often)
        for (size_t lane = 0; j < end; j++, lane = (lane + 1) & 3)
            sums[lane] += (double)values[2 * (size_t)at[j]] * (double)m->often[j];
    else {
        for (; j + 4 <= end; j += 4) {
            sums[0] += (double)values[2 * (size_t)at[j]];
            sums[1] += (double)values[2 * (size_t)at[j + 1]];
            sums[2] += (double)values[2 * (size_t)at[j + 2]];
            sums[3] += (double)values[2 * (size_t)at[j + 3]];
        }
        for (size_t lane = 0; j < end; j++, lane++)
            sums[lane] += (double)values[2 * (size_t)at[j]];
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) * m->scale[i] + m->bias[0];
}

/* Four sums and as many values, each times a number. */
static inline Lanes plus(Lanes sums, const float *values, float times)
{
#ifdef LANES_ARE_VECTORS
    Lanes more;
    memcpy(&more, values, sizeof more);
    sums += more * times;
#else
    for (size_t k = 0; k < LANES; k++)
        sums.of[k] += values[k] * times;
#endif
    return sums;
}

/* The sums of contrasts from `first` on, of the last four before `end`. The number of lanes is a compile-time constant,
 * so that all sums stay in registers and no addition waits for memory. */
static ALWAYS_INLINE void add_up(const Machine *m, size_t i, size_t first, size_t end, const size_t lanes)
{
    Lanes sums[MOST_LANES];
    memset(sums, 0, sizeof sums);
    const size_t stop = m->start[i + 1];
    for (size_t j = m->start[i]; j < stop; j++) {
        if (!first)
            fetch(m->values + (size_t)m->at[j + NEXT < stop ? j + NEXT : j] * m->each, m->each);
        const float *value = m->values + (size_t)m->at[j] * m->each + 1;
        const float often = m->often ? m->often[j] : 1.0f;
        for (size_t l = 0; l + 1 < lanes; l++)
            sums[l] = plus(sums[l], value + first + l * LANES, often);
        sums[lanes - 1] = plus(sums[lanes - 1], value + end - LANES, often);
    }
    memcpy(m->sums + first, sums, (lanes - 1) * sizeof *sums);
    memcpy(m->sums + end - LANES, sums + lanes - 1, sizeof *sums);
}

static inline void add_up_a_few(const Machine *m, size_t i)
{
    for (size_t k = 0; k < m->contrasts; k++) {
        float sum = 0.0f;
        for (size_t j = m->start[i]; j < m->start[i + 1]; j++)
            sum += m->values[(size_t)m->at[j] * m->each + 1 + k] * (m->often ? m->often[j] : 1.0f);
        m->sums[k] = sum;
    }
}

WIDE static void margins(const Machine *m, size_t i)
{
    const size_t n = m->contrasts;
    size_t first = 0;
    if (n < LANES)
        add_up_a_few(m, i);
    else
        for (; first < n; first += MOST_LANES * LANES)
            switch ((n - first + LANES - 1) / LANES) {
            case 1: add_up(m, i, first, n, 1); break;
            case 2: add_up(m, i, first, n, 2); break;
            case 3: add_up(m, i, first, n, 3); break;
            case 4: add_up(m, i, first, n, 4); break;
            case 5: add_up(m, i, first, n, 5); break;
            case 6: add_up(m, i, first, n, 6); break;
            case 7: add_up(m, i, first, n, 7); break;
            case MOST_LANES: add_up(m, i, first, n, MOST_LANES); break;
            default: add_up(m, i, first, first + MOST_LANES * LANES, MOST_LANES);
            }
    for (size_t k = 0; k < n; k++)
        m->margin[k] = (double)m->sums[k] * m->scale[i] + m->bias[k];
}

static void move_one(Machine *m, size_t i)
{
    const size_t end = m->start[i + 1];
    const double step = m->step[0] * m->scale[i];
    m->bias[0] += m->step[0];
    if (m->often)
        for (size_t j = m->start[i]; j < end; j++) {
            float *value = m->values + 2 * (size_t)m->at[j];
            const double strength = (double)value[0];
            value[1] = (float)((double)value[1] + step * (strength * strength * (double)m->often[j]));
        }
    else
        for (size_t j = m->start[i]; j < end; j++) {
            float *value = m->values + 2 * (size_t)m->at[j];
            const double strength = (double)value[0];
            value[1] = (float)((double)value[1] + step * (strength * strength));
        }
}

/* Update all contrasts, converged ones by 0: this takes less time than selecting the remaining ones. */
WIDE static void move(Machine *m, size_t i)
{
    const size_t contrasts = m->contrasts, each = m->each, end = m->start[i + 1];
    const float *restrict step = m->sums;
    for (size_t k = 0; k < contrasts; k++) {
        m->bias[k] += m->step[k];
        m->sums[k] = (float)(m->step[k] * m->scale[i]);
    }
    for (size_t j = m->start[i]; j < end; j++) {
        fetch(m->values + (size_t)m->at[j + NEXT < end ? j + NEXT : j] * each, each);
        float *restrict value = m->values + (size_t)m->at[j] * each;
        const float gain = m->often ? value[0] * value[0] * m->often[j] : value[0] * value[0];
        for (size_t k = 0; k < contrasts; k++)
            value[1 + k] += step[k] * gain;
    }
}

/* ------------------------------------------------------------------------------------------------ passes over all rows
 */

static uint32_t next_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* The distance of a pass's gradients from those of a solution. */
typedef struct {
    double high, low;
} Span;

/* Visit a row; return whether the next passes can skip it, because no machine needs it by a margin of `limit`. */
static inline int visit(Machine *m, size_t i, double limit, Span *span, const size_t contrasts)
{
    int idle = 1, moves = 0;
    double *alpha = m->alpha + i * contrasts;
    const double diagonal = 0.5 / m->costs[i], whole = (m->scale[i] > 0 ? 2.0 : 1.0) + diagonal;
    if (contrasts == 1)
        m->margin[0] = margin_of_one(m, i);
    else
        margins(m, i);
    for (size_t k = 0; k < contrasts; k++) {
        m->step[k] = 0.0;
        if (m->wanted[k] < 0)
            continue;
        const double sign = m->labels[i] == m->wanted[k] ? 1.0 : -1.0;
        const double slope = sign * m->margin[k] - 1.0 + alpha[k] * diagonal;
        if (alpha[k] == 0.0 && slope > 0) {
            idle &= slope > limit;
            continue;
        }
        idle = 0;
        if (slope > span->high)
            span->high = slope;
        if (slope < span->low)
            span->low = slope;
        if (fabs(slope) > 1e-12) {
            const double before = alpha[k], after = before - slope / whole;
            alpha[k] = after > 0 ? after : 0.0;
            m->step[k] = (alpha[k] - before) * sign;
            moves = 1;
        }
    }
    if (moves && contrasts == 1)
        move_one(m, i);
    else if (moves)
        move(m, i);
    return idle;
}

static inline size_t descend(Machine *m, size_t most, double enough, const size_t contrasts)
{
    uint32_t state = 2463534242u;
    size_t active = m->n, pass = 0;
    double limit = INFINITY;
    for (size_t i = 0; i < m->n; i++)
        m->order[i] = (uint32_t)i;
    while (pass < most) {
        Span span = {0.0, 0.0};
        pass++;
        for (size_t i = 0; i < active; i++) {
            size_t j = i + next_random(&state) % (uint32_t)(active - i);
            uint32_t swap = m->order[i];
            m->order[i] = m->order[j];
            m->order[j] = swap;
        }
        for (size_t i = 0; i < active; i++)
            if (visit(m, m->order[i], limit, &span, contrasts)) {
                uint32_t swap = m->order[i];
                m->order[i--] = m->order[--active];
                m->order[active] = swap;
            }
        if (span.high - span.low <= enough) {
            if (active == m->n)
                break;
            active = m->n; /* once more with the skipped rows */
            limit = INFINITY;
        } else
            limit = span.high > 0 ? span.high : INFINITY;
    }
    return pass;
}

/* ------------------------------------------------------------------------------------------------ from Python */

static int make_room(Machine *m)
{
    size_t k = m->contrasts;
    if (m->n > UINT32_MAX || (k && m->n > SIZE_MAX / 16 / k))
        return -1;
    m->alpha = calloc(m->n * k + 1, sizeof *m->alpha);
    m->margin = calloc(k + 1, sizeof *m->margin);
    m->step = calloc(k + 1, sizeof *m->step);
    m->order = malloc((m->n + 1) * sizeof *m->order);
    m->sums = calloc(k + 1, sizeof *m->sums);
    return m->alpha && m->margin && m->step && m->sums && m->order ? 0 : -1;
}

static void close_machine(Machine *m)
{
    free(m->start), free(m->at), free(m->often), free(m->scale);
    free(m->alpha), free(m->margin), free(m->step), free(m->sums), free(m->order);
}

static int check_machine(const Machine *m, const Rows *rows, size_t n_labels, size_t n_costs, size_t n_bias,
                         int counted)
{
    int good = n_labels == rows->n_which && n_costs == rows->n_which && n_bias == m->contrasts && m->contrasts &&
               (!counted || rows->times);
    for (size_t i = 0; good && i < n_costs; i++)
        good = m->costs[i] > 0 && m->costs[i] < 1e30;
    for (size_t i = 0; good && counted && i < rows->n_columns; i++)
        good = rows->times[i] > 0;
    if (!good)
        PyErr_SetString(PyExc_ValueError, "rows, labels, costs, contrasts and intercepts have inconsistent sizes");
    return good ? 0 : -1;
}

const char separate_doc[] =
    "separate(rows, which, table, counted, labels, costs, contrasts, intercepts, most, enough)\n--\n\n"
    "Fit a linear support vector machine on rows of length 1 for each contrast; return the number of "
    "passes.\n\n"
    "rows: indptr, columns and times; which: the selected documents (int64), or None. table: in memory, "
    "with 1 + the number of contrasts float32 values per column: its strength, then the result, strength "
    "times coefficient, initially 0. counted: whether the value of an entry is 1 + log of the number of "
    "occurrences. labels (int64), costs (float64): of the selected documents. contrasts (int64): the "
    "positive label of each machine; negative ones are not fitted. intercepts (float64): output. Ends "
    "after `most` passes, or when no gradient is off by more than `enough`.";
PyObject *pool_separate(PyObject *module, PyObject *args)
{
    PyObject *from, *which, *into, *labels, *costs, *contrasts, *intercepts;
    int counted;
    Py_ssize_t most;
    double enough;
    if (!PyArg_ParseTuple(args, "OOOpOOOOnd:separate", &from, &which, &into, &counted, &labels, &costs, &contrasts,
                          &intercepts, &most, &enough))
        return NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    if (!buffers)
        return PyErr_NoMemory();
    Machine m = {0};
    Rows rows;
    Table table;
    size_t n_labels, n_costs, n_bias, passes = 0;
    int good = (m.wanted = buffers_add(buffers, contrasts, 8, 0, &m.contrasts, "contrasts")) &&
               table_open(&table, buffers, into, m.contrasts + 1, 1) == 0 &&
               rows_open(&rows, buffers, from, which, table.width) == 0 &&
               (m.labels = buffers_add(buffers, labels, 8, 0, &n_labels, "labels")) &&
               (m.costs = buffers_add(buffers, costs, 8, 0, &n_costs, "costs")) &&
               (m.bias = buffers_add(buffers, intercepts, 8, 1, &n_bias, "intercepts")) &&
               check_machine(&m, &rows, n_labels, n_costs, n_bias, counted) == 0;
    if (good) {
        m.values = (float *)table.values, m.each = m.contrasts + 1, m.n = rows.n_which;
        int enough_room;
        Py_BEGIN_ALLOW_THREADS
        enough_room = make_room(&m) == 0 && take_rows(&m, &rows, &table, counted) == 0;
        if (enough_room && most > 0)
            passes = m.contrasts == 1 ? descend(&m, (size_t)most, enough, 1)
                                      : descend(&m, (size_t)most, enough, m.contrasts);
        Py_END_ALLOW_THREADS
        if (!enough_room) {
            PyErr_NoMemory();
            good = 0;
        }
    }
    close_machine(&m);
    buffers_close(buffers);
    free(buffers);
    return good ? PyLong_FromSize_t(passes) : NULL;
}
