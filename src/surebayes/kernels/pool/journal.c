/* Checksums of journal rows in the encoding of docs/format.md: one for each row, and a running one for all rows. */
#include "pool.h"

enum { HEADER = 5, NUMBER = 8 }; /* sizes of a tag with a length, and of a number */

/* Extend the checksum by a tag and 8 bytes, lowest first. */
static uint32_t with_number(uint32_t check, char tag, uint64_t bits)
{
    uint8_t encoded[1 + NUMBER] = {(uint8_t)tag};
    for (int i = 0; i < NUMBER; i++)
        encoded[1 + i] = (uint8_t)(bits >> 8 * i);
    return crc32_on(check, encoded, sizeof encoded);
}

/* Extend the checksum by a tag, a size and that many bytes; -1 with an exception. */
static int64_t with_bytes(uint32_t check, char tag, const char *data, Py_ssize_t size)
{
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a value of a row has at most 4 GB");
        return -1;
    }
    uint8_t header[HEADER] = {(uint8_t)tag};
    for (int i = 1; i < HEADER; i++)
        header[i] = (uint8_t)((uint32_t)size >> 8 * (i - 1));
    return crc32_on(crc32_on(check, header, HEADER), (const uint8_t *)data, (size_t)size);
}

/* Extend the checksum by a value; -1 with an exception. Types are exact, since equal values of other types may be read
 * back differently. */
static int64_t with_value(uint32_t check, PyObject *value)
{
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (value == Py_None)
        return crc32_on(check, (const uint8_t *)"N", 1);
    if (type == (PyObject *)&PyLong_Type) {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            return -1;
        return with_number(check, 'I', (uint64_t)number);
    }
    if (type == (PyObject *)&PyFloat_Type) {
        double real = PyFloat_AsDouble(value);
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        return with_number(check, 'F', bits);
    }
    Py_ssize_t size;
    if (type == (PyObject *)&PyUnicode_Type) {
        const char *text = PyUnicode_AsUTF8AndSize(value, &size);
        return text ? with_bytes(check, 'S', text, size) : -1;
    }
    if (type == (PyObject *)&PyBytes_Type) {
        char *data;
        return PyBytes_AsStringAndSize(value, &data, &size) < 0 ? -1 : with_bytes(check, 'B', data, size);
    }
    PyErr_Format(PyExc_TypeError, "a row has None, int, float, str and bytes, got %R", type);
    return -1;
}

/* The checksum of a row; -1 with an exception. */
static int64_t row_check(PyObject *row)
{
    if (!PyTuple_Check(row)) {
        PyErr_SetString(PyExc_TypeError, "a row must be a tuple");
        return -1;
    }
    int64_t check = 0;
    Py_ssize_t n = PyTuple_Size(row);
    for (Py_ssize_t i = 0; check >= 0 && i < n; i++)
        check = with_value((uint32_t)check, PyTuple_GetItem(row, i));
    return check;
}

/* Store a number in a list; -1 with an exception. */
static int set_number(PyObject *list, Py_ssize_t place, uint32_t number)
{
    PyObject *value = PyLong_FromUnsignedLong(number);
    return value ? PyList_SetItem(list, place, value) : -1;
}

const char row_checks_doc[] =
    "row_checks(rows, chain)\n--\n\n"
    "Return two lists: the checksums of journal rows, which are tuples of None, int, float, str and "
    "bytes, and the running checksum after each, starting from `chain`.";
PyObject *pool_row_checks(PyObject *module, PyObject *args)
{
    PyObject *rows;
    unsigned int chain;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!I:row_checks", &PyList_Type, &rows, &chain))
        return NULL;
    Py_ssize_t n = PyList_Size(rows);
    PyObject *checks = PyList_New(n), *chains = PyList_New(n);
    int failed = !checks || !chains;
    for (Py_ssize_t i = 0; !failed && i < n; i++) {
        PyObject *row = PyList_GetItem(rows, i);
        int64_t check = row ? row_check(row) : -1;
        if ((failed = check < 0))
            break;
        uint8_t own[4] = {(uint8_t)check, (uint8_t)(check >> 8), (uint8_t)(check >> 16), (uint8_t)(check >> 24)};
        chain = crc32_on(chain, own, sizeof own);
        failed = set_number(checks, i, (uint32_t)check) < 0 || set_number(chains, i, chain) < 0;
    }
    if (failed) {
        Py_XDECREF(checks);
        Py_XDECREF(chains);
        return NULL;
    }
    return Py_BuildValue("(NN)", checks, chains);
}
