/* core/boot/file_log.c - records in a shared file (see file_log.h).
 *
 * Records start at multiples of 8. A reader that meets something that is no record looks again while it holds the
 * writers' lock, because a write may be under way; if it is still none it goes on 8 bytes further.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "file_log.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/fault.h"
#include "../base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECORD_MAGIC UINT64_C(0x31474f4c4854494b)
#define LOCK_BASE ((off_t)1 << 40) /* behind any content: first the writers' byte, then one for each rank */
#define MAX_VALUE (KI_STORE_VALUE_NBYTES + (size_t)KI_STORE_GATHER_RANKS * sizeof(int32_t))

enum { STEP = 8, LOCK_POLL_NS = 200000, LOCK_TIMEOUT_MS = 30000 };

/* ---- locks ---- */

static bool set_lock(int fd, short type, off_t at)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool lock_writers(int fd, int64_t deadline_ns)
{
    while (!set_lock(fd, F_WRLCK, LOCK_BASE)) {
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || ki_deadline_passed(deadline_ns))
            return false;
        ki_sleep_ns(LOCK_POLL_NS);
    }
    return true;
}

static void unlock_writers(int fd)
{
    set_lock(fd, F_UNLCK, LOCK_BASE);
}

bool ki_file_log_hold(ki_file_log *log, int rank)
{
    return set_lock(log->fd, F_WRLCK, LOCK_BASE + 1 + rank);
}

bool ki_file_log_is_held(const ki_file_log *log, int rank)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BASE + 1 + rank, .l_len = 1 };
    return fcntl(log->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK; /* when in doubt, it lives */
}

/* ---- files ---- */

static bool take_file(ki_file_log *log, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return false;
    }
    log->fd = fd;
    log->offset = 0;
    log->device = st.st_dev;
    log->inode = st.st_ino;
    return true;
}

static int open_file(const char *path, int flags)
{
    if (ki_fault(KI_FAULT_OPEN)) {
        errno = EACCES;
        return -1;
    }
    return open(path, flags | O_RDWR | O_CLOEXEC | O_NONBLOCK, 0600);
}

static void temporary_name(const char *path, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s.new", path);
}

kith_status ki_file_log_open(ki_file_log *log, const char *path)
{
    int fd = open_file(path, 0);
    if (fd < 0)
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "%s: %s", path, strerror(errno));
    if (!take_file(log, fd))
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "%s is not a plain file", path);
    return KITH_OK;
}

kith_status ki_file_log_create(ki_file_log *log, const char *path)
{
    char temporary[PATH_MAX];
    temporary_name(path, temporary, sizeof temporary);
    unlink(temporary);
    int fd = open_file(temporary, O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd < 0)
        return ki_fail(KITH_ERR_NO_RESOURCE, "store file://%s: %s cannot be created: %s", path, temporary,
                       strerror(errno));
    if (!take_file(log, fd))
        return ki_fail(KITH_ERR_NO_RESOURCE, "store file://%s: %s is not a plain file", path, temporary);
    return KITH_OK;
}

void ki_file_log_discard(const char *path)
{
    char temporary[PATH_MAX];
    temporary_name(path, temporary, sizeof temporary);
    unlink(temporary);
}

kith_status ki_file_log_publish(const char *path)
{
    char temporary[PATH_MAX];
    temporary_name(path, temporary, sizeof temporary);
    if (rename(temporary, path) == 0)
        return KITH_OK;
    return ki_fail(KITH_ERR_NO_RESOURCE, "store file://%s: cannot be put in place: %s", path, strerror(errno));
}

void ki_file_log_close(ki_file_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    ki_free(NULL, log->body);
    log->body = NULL;
    log->body_capacity = 0;
}

bool ki_file_log_is_replaced(const ki_file_log *log, const char *path)
{
    struct stat st;
    return stat(path, &st) != 0 || st.st_dev != log->device || st.st_ino != log->inode;
}

/* ---- writing ---- */

static uint64_t hash_record(ki_record record, const void *key, const void *value, size_t nbytes, const void *more,
                            size_t more_nbytes)
{
    record.hash = 0;
    uint64_t hash = ki_hash(KI_HASH_INIT, &record, sizeof record);
    hash = ki_hash(hash, key, record.key_nbytes);
    hash = ki_hash(hash, value, nbytes);
    return ki_hash(hash, more, more_nbytes);
}

static bool write_at(int fd, const void *data, size_t nbytes, off_t *at)
{
    const unsigned char *p = data;
    while (nbytes > 0) {
        ssize_t n = pwrite(fd, p, nbytes, *at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        nbytes -= (size_t)n;
        *at += n;
    }
    return true;
}

kith_status ki_file_log_append(ki_file_log *log, ki_record *record, const char *key, const void *value, size_t nbytes,
                               const void *more, size_t more_nbytes, int64_t deadline_ns)
{
    struct stat st;
    record->magic = RECORD_MAGIC;
    record->key_nbytes = (uint32_t)strlen(key);
    record->value_nbytes = nbytes + more_nbytes;
    record->hash = hash_record(*record, key, value, nbytes, more, more_nbytes);
    if (!lock_writers(log->fd, deadline_ns != 0 ? deadline_ns : ki_deadline_after_ms(LOCK_TIMEOUT_MS)))
        return ki_fail(KITH_ERR_IO, "store: the file cannot be locked: %s", strerror(errno));
    bool is_fine = fstat(log->fd, &st) == 0;
    off_t at = is_fine ? (st.st_size + STEP - 1) / STEP * STEP : 0;
    is_fine = is_fine && write_at(log->fd, record, sizeof *record, &at) &&
              write_at(log->fd, key, record->key_nbytes, &at) && write_at(log->fd, value, nbytes, &at) &&
              write_at(log->fd, more, more_nbytes, &at);
    int error = errno;
    unlock_writers(log->fd);
    return is_fine ? KITH_OK : ki_fail(KITH_ERR_IO, "store: writing the file failed: %s", strerror(error));
}

/* ---- reading ---- */

static bool read_at(int fd, void *data, size_t nbytes, off_t at)
{
    unsigned char *p = data;
    while (nbytes > 0) {
        ssize_t n = pread(fd, p, nbytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        nbytes -= (size_t)n;
        at += n;
    }
    return true;
}

static bool is_sane(const ki_record *r)
{
    return r->magic == RECORD_MAGIC && r->kind >= KI_RECORD_HEADER && r->kind <= KI_RECORD_FAILURE &&
           r->key_nbytes < KI_STORE_KEY_NBYTES && r->value_nbytes <= MAX_VALUE;
}

static bool reserve_body(ki_file_log *log, size_t nbytes)
{
    if (nbytes <= log->body_capacity)
        return true;
    ki_free(NULL, log->body);
    log->body_capacity = 0;
    log->body = ki_calloc(NULL, 1, nbytes);
    if (log->body)
        log->body_capacity = nbytes;
    return log->body != NULL;
}

typedef enum reading { READ_RECORD, READ_NOTHING, READ_GARBAGE, READ_NO_MEMORY } reading;

static reading read_record(ki_file_log *log, ki_record *record)
{
    struct stat st;
    if (fstat(log->fd, &st) != 0 || st.st_size < log->offset + (off_t)STEP)
        return READ_NOTHING;
    if (st.st_size - log->offset < (off_t)sizeof *record || !read_at(log->fd, record, sizeof *record, log->offset) ||
        !is_sane(record))
        return READ_GARBAGE;
    size_t nbytes = record->key_nbytes + (size_t)record->value_nbytes;
    if (!reserve_body(log, nbytes + 1))
        return READ_NO_MEMORY;
    if (!read_at(log->fd, log->body, nbytes, log->offset + (off_t)sizeof *record))
        return READ_GARBAGE;
    const unsigned char *value = log->body + record->key_nbytes;
    bool is_whole = hash_record(*record, log->body, value, (size_t)record->value_nbytes, NULL, 0) == record->hash;
    return is_whole ? READ_RECORD : READ_GARBAGE;
}

bool ki_file_log_next(ki_file_log *log, ki_record *record, const unsigned char **key, const unsigned char **value)
{
    reading r;
    if ((r = read_record(log, record)) == READ_GARBAGE) {
        if (!lock_writers(log->fd, 1)) /* somebody is writing: look again later */
            return false;
        r = read_record(log, record);
        while (r == READ_GARBAGE) {
            log->offset += STEP;
            r = read_record(log, record);
        }
        unlock_writers(log->fd);
    }
    if (r != READ_RECORD)
        return false;
    off_t end = log->offset + (off_t)sizeof *record + record->key_nbytes + (off_t)record->value_nbytes;
    log->offset = (end + STEP - 1) / STEP * STEP;
    *key = log->body;
    *value = log->body + record->key_nbytes;
    return true;
}
