/* Comparison of two stacks of tables: the number of columns in the upper stack that are missing from the lower one. */
#include "pool.h"

enum { PART = 256 };

static int open_sums(Stack *stack, Buffers *buffers, PyObject *sums, int64_t *classes)
{
    if (whole_attr(sums, "classes", 2, INT32_MAX, classes) < 0)
        return -1;
    PyObject *list = PyObject_GetAttrString(sums, "stack");
    if (!list)
        return -1;
    int opened = stack_open(stack, buffers, list, (size_t)*classes);
    Py_DECREF(list);
    return opened;
}

/* A range of columns of a stack: their counts, and the state of the search. */
typedef struct {
    int32_t columns[PART], *found;
    int64_t *sums;
    uint8_t seen[PART], here[PART]; /* whether an earlier table has counts, and whether the current one has */
    size_t n;
} Part;

/* Add up the counts of the part's columns; return 0, or -1 if a block is damaged. Mark the columns with counts in the
 * table `current`, and those with counts in earlier tables. */
static int add_up(Stack *s, size_t classes, Part *part, size_t current)
{
    const size_t values = part->n * classes;
    memset(part->sums, 0, values * sizeof *part->sums);
    for (size_t i = 0; i < s->n; i++) {
        /* a table may be narrower than another one: it has no counts beyond its width */
        size_t within = part->n;
        while (within && (size_t)part->columns[within - 1] >= s->tables[i].width)
            within--;
        if (table_gather(&s->tables[i], part->columns, within, part->found) < 0)
            return -1;
        for (size_t c = 0; c < within; c++)
            for (size_t k = 0; k < classes; k++) {
                int32_t count = part->found[c * classes + k];
                part->sums[c * classes + k] += s->weights[i] * count;
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

/* The number of columns of a part that the upper stack has and the lower one is missing; -1 if a block is damaged. */
static int64_t count_part(Stack *upper, Stack *lower, size_t classes, size_t table, Part *part, uint8_t *is_alive)
{
    int64_t count = 0;
    memset(part->seen, 0, part->n);
    memset(part->here, 0, part->n);
    if (add_up(upper, classes, part, table) < 0)
        return -1;
    for (size_t c = 0; c < part->n; c++)
        is_alive[c] = part->here[c] && !part->seen[c] && has_documents(part->sums + c * classes, classes);
    if (add_up(lower, classes, part, 0) < 0)
        return -1;
    for (size_t c = 0; c < part->n; c++)
        count += is_alive[c] && !has_documents(part->sums + c * classes, classes);
    return count;
}

/* Fill a part with the next columns of a table from `at` on, a column of a table in memory or an entry of a file. */
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
        if (part->columns[i] < 0 || (i && part->columns[i] <= part->columns[i - 1]))
            return 0;
    return 1;
}

/* Return the error, or NULL. */
static const char *count_lacking(Stack *upper, Stack *lower, size_t classes, Part *part, int64_t *count)
{
    uint8_t is_alive[PART];
    for (size_t i = 0; i < upper->n; i++) {
        const Table *t = &upper->tables[i];
        for (size_t at = 0, end = t->in_file ? t->n : t->width; at < end;) {
            at = next_part(t, at, part);
            if (!is_ascending(part))
                return "an entry of the table is out of order, or of another table";
            int64_t more = part->n ? count_part(upper, lower, classes, i, part, is_alive) : 0;
            if (more < 0)
                return table_damaged;
            *count += more;
        }
    }
    return NULL;
}

const char count_missing_doc[] = "count_missing(upper, lower)\n--\n\n"
                                 "Count the columns with documents in `upper` and none in `lower`.\n\n"
                                 "Both have stack (a list of (table, weight), whose counts are added) and classes.";
PyObject *pool_count_missing(PyObject *module, PyObject *args)
{
    PyObject *given[2];
    if (!PyArg_ParseTuple(args, "OO:count_missing", &given[0], &given[1]))
        return NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    Part *part = calloc(1, sizeof *part);
    if (!buffers || !part) {
        free(buffers), free(part);
        return PyErr_NoMemory();
    }
    Stack upper = {.n = 0}, lower = {.n = 0};
    int64_t count = 0, classes[2];
    int good = open_sums(&upper, buffers, given[0], &classes[0]) == 0 &&
               open_sums(&lower, buffers, given[1], &classes[1]) == 0;
    if (good && classes[0] != classes[1]) {
        PyErr_SetString(PyExc_ValueError, "the two have different numbers of classes");
        good = 0;
    }
    if (good) {
        part->found = malloc(PART * (size_t)classes[0] * sizeof *part->found);
        part->sums = malloc(PART * (size_t)classes[0] * sizeof *part->sums);
        good = part->found && part->sums;
        if (!good)
            PyErr_NoMemory();
    }
    if (good) {
        const char *wrong;
        Py_BEGIN_ALLOW_THREADS
        wrong = count_lacking(&upper, &lower, (size_t)classes[0], part, &count);
        Py_END_ALLOW_THREADS
        if (wrong) {
            PyErr_SetString(PyExc_ValueError, wrong);
            good = 0;
        }
    }
    free(part->found), free(part->sums), free(part);
    stack_close(&upper), stack_close(&lower);
    buffers_close(buffers);
    free(buffers);
    return good ? PyLong_FromLongLong(count) : NULL;
}
