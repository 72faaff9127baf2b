/* Stacks of tables one above the other: how many columns one has that the other lacks. */
#include "pool.h"

enum { PART = 256 };

/* Tables whose counts add up. */
typedef struct {
    Table *tables;
    int64_t *weights;
    size_t n, classes;
} Layer;

static int open_layer(Layer *s, Buffers *buffers, PyObject *sums)
{
    int64_t classes;
    if (whole_attr(sums, "classes", 2, INT32_MAX, &classes) < 0)
        return -1;
    PyObject *stack = PyObject_GetAttrString(sums, "stack");
    if (!stack)
        return -1;
    int good = PyList_Check(stack);
    s->classes = (size_t)classes;
    s->n = good ? (size_t)PyList_Size(stack) : 0;
    s->tables = calloc(s->n + 1, sizeof *s->tables);
    s->weights = calloc(s->n + 1, sizeof *s->weights);
    if (!s->tables || !s->weights) {
        PyErr_NoMemory();
        good = 0;
    }
    for (size_t i = 0; good && i < s->n; i++) {
        PyObject *pair = PyList_GetItem(stack, (Py_ssize_t)i);
        good = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
        if (good) {
            s->weights[i] = PyLong_AsLongLong(PyTuple_GetItem(pair, 1));
            good = !PyErr_Occurred() && s->weights[i] >= 1 && s->weights[i] <= 1000000 &&
                   table_open(&s->tables[i], buffers, PyTuple_GetItem(pair, 0), s->classes, 0) == 0;
        }
    }
    Py_DECREF(stack);
    if (!good && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "sums need a list of (table, weight from 1 to 1000000)");
    return good ? 0 : -1;
}

static void close_layer(Layer *s)
{
    free(s->tables), free(s->weights);
}

/* Some columns of a stack: their counts, and what is needed to find them. */
typedef struct {
    int32_t columns[PART], *found;
    int64_t *sums;
    uint8_t seen[PART], here[PART]; /* whether a table before the one that is gone through has counts, and this one */
    size_t n;
} Part;

/* Add up the counts of the part's columns; 0, or -1 where a block is damaged. Mark those that the table `current` has
 * counts of, and those that tables before it have. */
static int add_up(Layer *s, Part *part, size_t current)
{
    const size_t values = part->n * s->classes;
    memset(part->sums, 0, values * sizeof *part->sums);
    for (size_t i = 0; i < s->n; i++) {
        /* a table may be narrower than the columns of another: it has none of those beyond */
        size_t within = part->n;
        while (within && (size_t)part->columns[within - 1] >= s->tables[i].width)
            within--;
        if (table_gather(&s->tables[i], part->columns, within, part->found) < 0)
            return -1;
        for (size_t c = 0; c < within; c++)
            for (size_t k = 0; k < s->classes; k++) {
                int32_t count = part->found[c * s->classes + k];
                part->sums[c * s->classes + k] += s->weights[i] * count;
                if (count && i < current)
                    part->seen[c] = 1;
                if (count && i == current)
                    part->here[c] = 1;
            }
    }
    return 0;
}

static int has_documents(const int64_t *row, size_t classes)
{
    for (size_t k = 0; k < classes; k++)
        if (row[k])
            return 1;
    return 0;
}

/* How many columns of a part the upper stack has and the lower one lacks; -1 where a block is damaged. */
static int64_t count_part(Layer *upper, Layer *lower, size_t table, Part *part, uint8_t *is_alive)
{
    int64_t count = 0;
    memset(part->seen, 0, part->n);
    memset(part->here, 0, part->n);
    if (add_up(upper, part, table) < 0)
        return -1;
    for (size_t c = 0; c < part->n; c++)
        is_alive[c] = part->here[c] && !part->seen[c] && has_documents(part->sums + c * upper->classes, upper->classes);
    if (add_up(lower, part, 0) < 0)
        return -1;
    for (size_t c = 0; c < part->n; c++)
        count += is_alive[c] && !has_documents(part->sums + c * lower->classes, lower->classes);
    return count;
}

/* Fill a part with the next columns of a table, from `at` on: a column of one in memory, an entry of one in a file. */
static size_t next_part(const Table *t, size_t at, Part *part)
{
    part->n = 0;
    if (!t->in_file) {
        for (; at < t->width && part->n < PART; at++) {
            part->columns[part->n] = (int32_t)at;
            part->n += (uint32_t)t->place[at] - 1u < t->rows;
        }
        return at;
    }
    for (; at < t->n; at++) {
        int32_t column = (int32_t)((uint64_t)word(t->entries + 8 * at) >> t->bits);
        if (part->n && part->columns[part->n - 1] == column)
            continue;
        if (part->n == PART)
            break;
        part->columns[part->n++] = column;
    }
    return at;
}

static int is_ascending(const Part *part)
{
    for (size_t i = 0; i < part->n; i++)
        if (part->columns[i] < (i ? part->columns[i - 1] + 1 : 0))
            return 0;
    return 1;
}

/* What is wrong, or NULL. */
static const char *count_lacking(Layer *upper, Layer *lower, Part *part, int64_t *count)
{
    uint8_t is_alive[PART];
    for (size_t i = 0; i < upper->n; i++) {
        const Table *t = &upper->tables[i];
        for (size_t at = 0, end = t->in_file ? t->n : t->width; at < end;) {
            at = next_part(t, at, part);
            if (!is_ascending(part))
                return "an entry of the table is out of order, or of another table";
            int64_t more = part->n ? count_part(upper, lower, i, part, is_alive) : 0;
            if (more < 0)
                return table_damaged;
            *count += more;
        }
    }
    return NULL;
}

const char lacking_doc[] = "lacking(upper, lower)\n--\n\n"
                           "How many columns have documents in `upper` and none in `lower`.\n\n"
                           "Both: stack (a list of (table, weight), whose counts add up) and classes.";
PyObject *pool_lacking(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    if (!PyArg_ParseTuple(args, "OO:lacking", &given[0], &given[1]))
        return NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    Part *part = calloc(1, sizeof *part);
    if (!buffers || !part) {
        free(buffers), free(part);
        return PyErr_NoMemory();
    }
    Layer upper = {.n = 0}, lower = {.n = 0};
    int64_t count = 0;
    int good = open_layer(&upper, buffers, given[0]) == 0 && open_layer(&lower, buffers, given[1]) == 0;
    if (good && upper.classes != lower.classes) {
        PyErr_SetString(PyExc_ValueError, "the two have not the same classes");
        good = 0;
    }
    if (good) {
        part->found = malloc(PART * upper.classes * sizeof *part->found);
        part->sums = malloc(PART * upper.classes * sizeof *part->sums);
        good = part->found && part->sums;
        if (!good)
            PyErr_NoMemory();
    }
    if (good) {
        const char *wrong;
        Py_BEGIN_ALLOW_THREADS
        wrong = count_lacking(&upper, &lower, part, &count);
        Py_END_ALLOW_THREADS
        if (wrong) {
            PyErr_SetString(PyExc_ValueError, wrong);
            good = 0;
        }
    }
    free(part->found), free(part->sums), free(part);
    close_layer(&upper), close_layer(&lower);
    buffers_close(buffers);
    free(buffers);
    return good ? PyLong_FromLongLong(count) : NULL;
}
