/* The canonical form of a message: the input of its fingerprint. */
#include "fingerprint.h"
#include "blake2.h"
#include "module.h"

/* Copy with runs of ASCII white space as one blank, stripped at both ends; `out` has room for size + 16. */
static Py_ssize_t fold_bytes(const char *data, Py_ssize_t size, char *out)
{
    Py_ssize_t n = 0, i = 0;
    unsigned after = 1; /* whether white space, or nothing, precedes */
#if defined(__SSE2__)
    while (size - i >= 16) { /* up to the first white space that follows white space, then past its run */
        __m128i block = _mm_loadu_si128((const __m128i *)(data + i)), blank = _mm_set1_epi8(' ');
        __m128i control = _mm_and_si128(_mm_cmpgt_epi8(block, _mm_set1_epi8(8)),
                                        _mm_cmplt_epi8(block, _mm_set1_epi8(14)));
        __m128i space = _mm_or_si128(control, _mm_cmpeq_epi8(block, blank));
        unsigned mask = (unsigned)_mm_movemask_epi8(space), dropped = mask & (mask << 1 | after);
        block = _mm_or_si128(_mm_and_si128(space, blank), _mm_andnot_si128(space, block));
        _mm_storeu_si128((__m128i *)(out + n), block);
        if (!dropped) {
            n += 16;
            i += 16;
            after = mask >> 15;
            continue;
        }
        int first = lowest_bit(dropped);
        n += first;
        i += first + lowest_bit(~(mask >> first));
        after = 1;
    }
#endif
    for (; i < size; i++) { /* without branches on the characters: three times as fast */
        unsigned char c = (unsigned char)data[i];
        unsigned space = (c == ' ') | ((unsigned)(c - '\t') < 5);
        out[n] = space ? ' ' : (char)c;
        n += !(space & after);
        after = space;
    }
    return n && out[n - 1] == ' ' ? n - 1 : n;
}

/* The UTF-8 of a str, lone surrogates included; `owner` holds it if the str doesn't. */
static const char *any_utf8(PyObject *text, Py_ssize_t *size, PyObject **owner)
{
    char *data;
    const char *found = PyUnicode_AsUTF8AndSize(text, size);
    *owner = NULL;
    if (found || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return found;
    PyErr_Clear();
    *owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    return *owner && PyBytes_AsStringAndSize(*owner, &data, size) == 0 ? data : NULL;
}

/* Copy without white space (ASCII, as in str.split); -1 if decode_header would do more. */
static Py_ssize_t copy_identity(const unsigned char *data, Py_ssize_t size, unsigned char *out)
{
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        unsigned char c = data[i];
        if (c & 0x80 || (c == '?' && i && data[i - 1] == '='))
            return -1;
        out[n] = c;
        n += !(is_blank(c) || (unsigned)(c - 0x1c) < 4);
    }
    return n;
}

Py_ssize_t fold_parts(Span identity, Span subject, Span text, char *out, Py_ssize_t *name)
{
    Py_ssize_t n = copy_identity(identity.at, identity.size, (unsigned char *)out);
    *name = n;
    if (n < 0)
        return -1;
    out[n++] = '\n';
    n += fold_bytes((const char *)subject.at, subject.size, out + n);
    out[n++] = '\n';
    n += fold_bytes((const char *)text.at, text.size, out + n);
    out[n++] = '\n';
    return n;
}

PyDoc_STRVAR(fold_mail_doc,
             "fold_mail(identity, subject, text, /)\n--\n\n"
             "Return the input of a fingerprint: Message-ID (bytes) without white space, subject and text with "
             "every run of it as one blank, a line\n"
             "each, in UTF-8. None for a Message-ID that isn't plain ASCII.");

static PyObject *fold_mail(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    PyObject *owner[2] = {NULL, NULL}, *folded = NULL;
    const char *text[2];
    char *identity, *out = NULL;
    Py_ssize_t size[3], name;
    (void)module;
    if (n != 3 || !PyUnicode_Check(args[1]) || !PyUnicode_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "fold_mail needs bytes and two str");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &identity, &size[2]) < 0)
        return NULL;
    for (int k = 0; k < 2; k++)
        if (!(text[k] = any_utf8(args[k + 1], &size[k], &owner[k])))
            goto done;
    if (!(out = PyMem_Malloc((size_t)size[0] + (size_t)size[1] + (size_t)size[2] + FOLDED_MORE))) {
        PyErr_NoMemory();
        goto done;
    }
    n = fold_parts((Span){(const unsigned char *)identity, size[2]}, (Span){(const unsigned char *)text[0], size[0]},
                   (Span){(const unsigned char *)text[1], size[1]}, out, &name);
    folded = n < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(out, n);
done:
    PyMem_Free(out);
    Py_XDECREF(owner[0]);
    Py_XDECREF(owner[1]);
    return folded;
}

PyDoc_STRVAR(hash_names_doc, "hash_names(key, names, /)\n--\n\n"
                             "The BLAKE2b of each of a list of str, in UTF-8, with a key: 16 bytes; None for \"\".");

static PyObject *hash_names(PyObject *module, PyObject *args)
{
    const uint8_t *key;
    Py_ssize_t size;
    PyObject *names;
    uint64_t start[8];
    (void)module;
    if (!PyArg_ParseTuple(args, "y#O!:hash_names", &key, &size, &PyList_Type, &names))
        return NULL;
    if (size < 1 || size > LONGEST_KEY) {
        PyErr_SetString(PyExc_ValueError, "a key has 1 to 64 bytes");
        return NULL;
    }
    keyed_start(key, (size_t)size, start);
    PyObject *result = PyList_New(PyList_Size(names));
    for (Py_ssize_t i = 0; result && i < PyList_Size(result); i++) {
        PyObject *name = i < PyList_Size(names) ? PyList_GetItem(names, i) : Py_None, *owner = NULL, *hashed = NULL;
        const char *data = NULL;
        uint8_t digest[FINGERPRINT];
        if (!PyUnicode_Check(name))
            PyErr_SetString(PyExc_TypeError, "a name must be str");
        else
            data = any_utf8(name, &size, &owner);
        if (data && size) {
            keyed_digest(start, (const uint8_t *)data, (size_t)size, digest);
            hashed = PyBytes_FromStringAndSize((const char *)digest, FINGERPRINT);
        } else if (data)
            hashed = Py_NewRef(Py_None);
        Py_XDECREF(owner);
        if (!hashed || PyList_SetItem(result, i, hashed) < 0)
            Py_CLEAR(result);
    }
    return result;
}

PyMethodDef fingerprint_functions[] = {
    {"hash_names", hash_names, METH_VARARGS, hash_names_doc},
    {"fold_mail", (PyCFunction)(void (*)(void))fold_mail, METH_FASTCALL, fold_mail_doc},
    {NULL, NULL, 0, NULL},
};
