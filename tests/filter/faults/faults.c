/* A disk that fails, a process that dies, power that goes: at the n-th operation on files below a folder.
 *
 * Preloaded into a process of the tests. fault_arm() chooses the operation and what happens at it; fault_seen() says how
 * many there were. With fault_record() every operation is written to a log instead, from which the tests work out what a
 * disk may hold after the power went: whatever was flushed, and any part of what was not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, KILL, EIO_, ENOSPC_, SHORT };

static char root[4096];
static long wanted = -1, seen;
static int mode, journal = -1;

void fault_arm(const char *folder, long at, int how)
{
    snprintf(root, sizeof root, "%s", folder);
    seen = 0;
    wanted = at;
    mode = how;
}

void fault_record(const char *folder, const char *log)
{
    fault_arm(folder, -1, NOTHING);
    journal = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
}

long fault_seen(void) { return seen; }

static int below(const char *path)
{
    char whole[4096];
    if (!root[0] || !path)
        return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, sizeof whole))
            return 0;
        return strncmp(whole, root, strlen(root)) == 0;
    }
    return strncmp(path, root, strlen(root)) == 0;
}

static int path_of(int fd, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    if (n < 0)
        return 0;
    path[n] = 0;
    return below(path);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static ssize_t plain_write(int fd, const void *data, size_t n)
{
    REAL(write);
    return real(fd, data, n);
}

/* A line of text for every operation; what was written follows its line. */
static void note(const char *operation, const char *path, const char *other, long long offset, const void *data, size_t n)
{
    char line[9000];
    if (journal < 0)
        return;
    int size = snprintf(line, sizeof line, "%s\t%s\t%s\t%lld\t%zu\n", operation, path, other, offset, n);
    plain_write(journal, line, (size_t)size);
    if (data)
        plain_write(journal, data, n);
}

/* What a process has acknowledged, in its place among the operations. */
void fault_say(const char *word) { note("said", word, "", 0, NULL, 0); }

/* Whether this operation is the one; then the process is gone, or errno says what the operation fails with. */
static int fails(void)
{
    if (wanted < 0 || seen++ != wanted)
        return 0;
    if (mode == KILL)
        _exit(113);
    errno = mode == EIO_ ? EIO : ENOSPC;
    return mode != NOTHING;
}

static int opened(int fd, const char *path, int flags)
{
    if (fd >= 0 && below(path) && flags & (O_CREAT | O_TRUNC))
        note(flags & O_TRUNC ? "truncate" : "create", path, "", 0, NULL, 0);
    return fd;
}

#define OPENS(flags) ((flags) & (O_CREAT | O_TRUNC))

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list more;
    va_start(more, flags);
    mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (OPENS(flags) && below(path) && fails())
        return -1;
    return opened(real(path, flags, permissions), path, flags);
}

int open64(const char *path, int flags, ...)
{
    REAL(open64);
    va_list more;
    va_start(more, flags);
    mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (OPENS(flags) && below(path) && fails())
        return -1;
    return opened(real(path, flags, permissions), path, flags);
}

static ssize_t written(int fd, const char *path, const void *data, ssize_t n, long long offset)
{
    if (n > 0)
        note("write", path, "", offset, data, (size_t)n);
    return n;
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write);
    char path[4096];
    if (fd == journal || !path_of(fd, path, sizeof path))
        return real(fd, data, n);
    if (fails()) {
        if (mode != SHORT || n < 2)
            return -1;
        n /= 2;
    }
    long long at = journal < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
    return written(fd, path, data, real(fd, data, n), at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    REAL(pwrite);
    char path[4096];
    if (!path_of(fd, path, sizeof path))
        return real(fd, data, n, offset);
    if (fails()) {
        if (mode != SHORT || n < 2)
            return -1;
        n /= 2;
    }
    return written(fd, path, data, real(fd, data, n, offset), offset);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t offset)
{
    REAL(pwrite64);
    char path[4096];
    if (!path_of(fd, path, sizeof path))
        return real(fd, data, n, offset);
    if (fails()) {
        if (mode != SHORT || n < 2)
            return -1;
        n /= 2;
    }
    return written(fd, path, data, real(fd, data, n, offset), offset);
}

int fsync(int fd)
{
    REAL(fsync);
    char path[4096];
    if (path_of(fd, path, sizeof path)) {
        if (fails())
            return -1;
        note("flush", path, "", 0, NULL, 0);
    }
    return journal < 0 ? real(fd) : 0;
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    char path[4096];
    if (path_of(fd, path, sizeof path)) {
        if (fails())
            return -1;
        note("flush", path, "", 0, NULL, 0);
    }
    return journal < 0 ? real(fd) : 0;
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    char path[4096];
    if (path_of(fd, path, sizeof path)) {
        if (fails())
            return -1;
        note("resize", path, "", size, NULL, 0);
    }
    return real(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64);
    char path[4096];
    if (path_of(fd, path, sizeof path)) {
        if (fails())
            return -1;
        note("resize", path, "", size, NULL, 0);
    }
    return real(fd, size);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (below(to) || below(from)) {
        if (fails())
            return -1;
        note("rename", from, to, 0, NULL, 0);
    }
    return real(from, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    if (below(path)) {
        if (fails())
            return -1;
        note("unlink", path, "", 0, NULL, 0);
    }
    return real(path);
}

int mkdir(const char *path, mode_t permissions)
{
    REAL(mkdir);
    if (below(path)) {
        if (fails())
            return -1;
        note("mkdir", path, "", 0, NULL, 0);
    }
    return real(path, permissions);
}
