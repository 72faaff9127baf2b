/* Compression of the journal's content as LZ4 blocks, which are larger than zlib's but take a sixth of the time.
 *
 * The format is lz4_Block_format.md of the LZ4 project: sequences of a token (the numbers of literals and of matching
 * bytes), the literals, the distance of the match, and further bytes of lengths that exceed the token. The last five
 * bytes are literals, and no match begins in the last twelve. A mark and the unpacked size precede the block.
 */
#include "../gil.h"
#include "pool.h"

enum {
    HEAD = 5, /* the mark, and the size as uint32 */
    LEAST_MATCH = 4,
    LAST_LITERALS = 5,
    LAST_MATCH = 12,
    FARTHEST = 65535,
    LEAST_BITS = 8,
    MOST_BITS = 13,
    ROOM_TO_SPARE = 32,
    PATIENCE = 5 /* the step grows by one after 2^PATIENCE places without a match */
};
static const uint8_t MARK = 'L';

static uint64_t two_words(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* ------------------------------------------------------------------------------------------------ compression */

static uint8_t *put_length(uint8_t *out, size_t rest)
{
    for (; rest >= 255; rest -= 255)
        *out++ = 255;
    *out++ = (uint8_t)rest;
    return out;
}

/* Write literals, then a match of a length at a distance back; length 0 without a match, at the end. */
static uint8_t *put_sequence(uint8_t *out, const uint8_t *from, size_t literals, size_t back, size_t length)
{
    uint8_t *token = out++;
    *token = (uint8_t)((literals < 15 ? literals : 15) << 4);
    if (literals >= 15)
        out = put_length(out, literals - 15);
    if (literals <= 16 && literals + length + LAST_LITERALS >= 16 && length) /* 16 bytes can be read and written */
        memcpy(out, from, 16);
    else
        memcpy(out, from, literals);
    out += literals;
    if (length) {
        *out++ = (uint8_t)back;
        *out++ = (uint8_t)(back >> 8);
        length -= LEAST_MATCH;
        *token |= (uint8_t)(length < 15 ? length : 15);
        if (length >= 15)
            out = put_length(out, length - 15);
    }
    return out;
}

/* The number of equal bytes at two places, up to an end. */
static size_t common(const uint8_t *a, const uint8_t *b, const uint8_t *end)
{
    const uint8_t *start = a;
#if defined(__GNUC__) || defined(__clang__)
    for (; end - a >= 8; a += 8, b += 8) {
        uint64_t other = two_words(a) ^ two_words(b);
        if (other)
            return (size_t)(a - start) + (size_t)(__builtin_ctzll(other) >> 3);
    }
#endif
    for (; a < end && *a == *b; a++)
        b++;
    return (size_t)(a - start);
}

static int table_bits(size_t n)
{
    int bits = LEAST_BITS;
    while (bits < MOST_BITS && n >> bits)
        bits++;
    return bits;
}

static uint8_t *put_block(const uint8_t *data, size_t n, uint8_t *out, uint32_t *table)
{
    int bits = table_bits(n);
    size_t from = 0, at = 1, missed = 1 << PATIENCE;
    memset(table, 0, sizeof *table << bits);
    /* six bytes: shorter matches save little and take as long */
#define SLOT(place) ((two_words(data + (place)) << 16) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits))
    while (at + LAST_MATCH <= n) {
        uint64_t slot = SLOT(at);
        size_t before = table[slot];
        table[slot] = (uint32_t)at;
        if (word(data + before) != word(data + at) || at - before > FARTHEST) {
            at += missed++ >> PATIENCE;
            continue;
        }
        for (; at > from && before && data[at - 1] == data[before - 1]; at--)
            before--;
        size_t length = LEAST_MATCH +
                        common(data + at + LEAST_MATCH, data + before + LEAST_MATCH, data + n - LAST_LITERALS);
        out = put_sequence(out, data + from, at - from, at - before, length);
        from = at += length;
        missed = 1 << PATIENCE;
        if (at + LAST_MATCH <= n)
            table[SLOT(at - 2)] = (uint32_t)(at - 2);
    }
#undef SLOT
    return put_sequence(out, data + from, n - from, 0, 0);
}

typedef struct {
    const char *data;
    size_t size;
} Part;

/* A content: consecutive parts, and the result. */
typedef struct {
    const Part *parts;
    size_t n, size, packed;
} Content;

/* The memory of a part: bytes, or an ASCII str; -1 with an exception. */
static int part_open(Part *part, PyObject *from)
{
    char *data = NULL;
    Py_ssize_t n = 0;
    if (!PyUnicode_Check(from))
        data = PyBytes_AsStringAndSize(from, &data, &n) < 0 ? NULL : data;
    else if ((data = (char *)(uintptr_t)PyUnicode_AsUTF8AndSize(from, &n)) && n != PyUnicode_GetLength(from)) {
        PyErr_SetString(PyExc_ValueError, "a part that is str must be ASCII");
        data = NULL;
    }
    part->data = data;
    part->size = (size_t)n;
    return data ? 0 : -1;
}

/* Read a content and its parts into `parts`, which has room for them. */
static int content_open(Content *content, PyObject *from, Part *parts)
{
    content->parts = parts;
    if (PyUnicode_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "a content must be bytes, or a tuple of parts");
        return -1;
    }
    content->n = PyTuple_Check(from) ? (size_t)PyTuple_Size(from) : 1;
    for (size_t i = 0; i < content->n; i++) {
        if (part_open(parts + i, PyTuple_Check(from) ? PyTuple_GetItem(from, (Py_ssize_t)i) : from) < 0)
            return -1;
        content->size += parts[i].size;
    }
    if (content->size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a content can have up to 2**31 - 1 bytes");
        return -1;
    }
    return 0;
}

/* A content in one piece: its only part, or a copy of all parts in `scratch`. */
static const uint8_t *in_one_piece(const Content *content, uint8_t *scratch)
{
    size_t size = 0;
    if (content->n == 1)
        return (const uint8_t *)content->parts[0].data;
    for (const Part *part = content->parts; part < content->parts + content->n; size += part++->size)
        memcpy(scratch + size, part->data, part->size);
    return scratch;
}

/* Compress each content, after a prefix. */
static void put_contents(Content *all, Py_ssize_t n, const char *prefix, size_t n_prefix, uint8_t *scratch,
                         uint8_t *out)
{
    uint32_t table[1 << MOST_BITS];
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t size = (uint32_t)all[i].size;
        uint8_t *start = out;
        memcpy(out, prefix, n_prefix);
        out += n_prefix;
        *out++ = MARK;
        memcpy(out, &size, 4);
        out = put_block(in_one_piece(all + i, scratch), size, out + 4, table);
        all[i].packed = (size_t)(out - start);
    }
}

/* The results as bytes; or as bytearrays, with their checksums. */
static PyObject *packed_objects(const Content *all, Py_ssize_t n, const uint8_t *packed, int as_bodies)
{
    PyObject *result = PyList_New(n), *checks = as_bodies && result ? PyList_New(n) : NULL;
    for (Py_ssize_t i = 0; result && i < n; packed += all[i++].packed) {
        const char *p = (const char *)packed;
        Py_ssize_t size = (Py_ssize_t)all[i].packed;
        PyObject *one = as_bodies ? PyByteArray_FromStringAndSize(p, size) : PyBytes_FromStringAndSize(p, size);
        PyObject *check = checks ? PyLong_FromUnsignedLong(crc32_of(packed, all[i].packed)) : NULL;
        if (!one || PyList_SetItem(result, i, one) < 0 ||
            (as_bodies && (!check || PyList_SetItem(checks, i, check) < 0)))
            Py_CLEAR(result);
    }
    if (as_bodies && !(result && checks)) {
        Py_XDECREF(result);
        Py_XDECREF(checks);
        return NULL;
    }
    return as_bodies ? Py_BuildValue("(NN)", result, checks) : result;
}

const char compress_doc[] =
    "compress(contents, prefix=None)\n--\n\n"
    "Compress a list of contents: each becomes a mark, its size as uint32, and an LZ4 block. A content is "
    "bytes, or a tuple of consecutive parts: bytes and ASCII str. With a prefix, return two lists: "
    "bytearrays that begin with it, and their CRC-32.";
PyObject *pool_compress(PyObject *module, PyObject *args)
{
    PyObject *contents, *prefix_given = Py_None, *result = NULL, *held = NULL;
    char *prefix = "";
    Py_ssize_t n_prefix = 0;
    size_t room = 0, longest = 0, n_parts = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!|O:compress", &PyList_Type, &contents, &prefix_given) ||
        (prefix_given != Py_None && PyBytes_AsStringAndSize(prefix_given, &prefix, &n_prefix) < 0))
        return NULL;
    Py_ssize_t n = PyList_Size(contents);
    uint8_t *packed = NULL, *scratch = NULL;
    Part *parts = NULL;
    Content *all = calloc((size_t)n + 1, sizeof *all);
    held = PyList_GetSlice(contents, 0, n); /* a copy: other threads may change the list */
    for (Py_ssize_t i = 0; held && i < n; i++) {
        PyObject *from = PyList_GetItem(held, i);
        n_parts += PyTuple_Check(from) ? (size_t)PyTuple_Size(from) : 1;
    }
    if (!all || !held || !(parts = calloc(n_parts + 1, sizeof *parts))) {
        PyErr_NoMemory();
        goto done;
    }
    Part *next = parts;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (content_open(all + i, PyList_GetItem(held, i), next) < 0)
            goto done;
        next += all[i].n;
        longest = all[i].size > longest ? all[i].size : longest;
        room += (size_t)n_prefix + HEAD + all[i].size + all[i].size / 255 + ROOM_TO_SPARE;
    }
    packed = malloc(room + 1);
    scratch = malloc(longest + 1);
    if (!packed || !scratch) {
        PyErr_NoMemory();
        goto done;
    }
    PyThreadState *thread = release_gil((size_t)n, room);
    put_contents(all, n, prefix, (size_t)n_prefix, scratch, packed);
    restore_gil(thread);
    result = packed_objects(all, n, packed, prefix_given != Py_None);
done:
    Py_XDECREF(held);
    free(packed);
    free(scratch);
    free(parts);
    free(all);
    return result;
}

/* ------------------------------------------------------------------------------------------------ decompression */

/* Read the rest of a length that exceeds the token; NULL if the block ends inside. */
static const uint8_t *get_length(const uint8_t *in, const uint8_t *end, size_t *length)
{
    uint8_t more = 255;
    while (more == 255) {
        if (in == end)
            return NULL;
        more = *in++;
        *length += more;
    }
    return in;
}

static int get_block(const uint8_t *in, const uint8_t *end, uint8_t *out, size_t size)
{
    uint8_t *start = out, *out_end = out + size;
    while (in < end) {
        uint8_t token = *in++;
        size_t literals = token >> 4, length = token & 15;
        if (literals == 15 && !(in = get_length(in, end, &literals)))
            return -1;
        if (literals > (size_t)(end - in) || literals > (size_t)(out_end - out))
            return -1;
        memcpy(out, in, literals);
        in += literals;
        out += literals;
        if (in == end)
            return out == out_end ? 0 : -1;
        if (end - in < 2)
            return -1;
        size_t back = (size_t)in[0] | (size_t)in[1] << 8;
        in += 2;
        if (length == 15 && !(in = get_length(in, end, &length)))
            return -1;
        length += LEAST_MATCH;
        if (!back || back > (size_t)(out - start) || length > (size_t)(out_end - out))
            return -1;
        if (back >= length) {
            memcpy(out, out - back, length);
            out += length;
        } else
            for (; length; length--, out++)
                *out = *(out - back);
    }
    return -1; /* the last sequence has no match */
}

const char decompress_doc[] =
    "decompress(packed, most)\n--\n\n"
    "Unpack the result of `compress`; ValueError for anything else, or for more than `most` bytes.";
PyObject *pool_decompress(PyObject *module, PyObject *args)
{
    const char *packed;
    Py_ssize_t n, most;
    uint32_t size;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#n:decompress", &packed, &n, &most))
        return NULL;
    if (n > HEAD && (uint8_t)packed[0] == MARK) {
        memcpy(&size, packed + 1, 4);
        if (size <= INT32_MAX && (Py_ssize_t)size <= most &&
            (result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size)) &&
            get_block((const uint8_t *)packed + HEAD, (const uint8_t *)packed + n, (uint8_t *)PyBytes_AsString(result),
                      size) < 0)
            Py_CLEAR(result);
    }
    if (!result && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "it is not an LZ4 block of the size in its head");
    return result;
}
