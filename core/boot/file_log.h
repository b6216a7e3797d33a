/* core/boot/file_log.h - an append-only file of records that several processes write and read, on one host or over a
 * network file system.
 *
 * Writers take a lock on a byte far behind the end, so that records never interleave; a record carries a hash, so that
 * what a writer left unfinished, or something else altogether, is skipped. Every handle also holds a lock on a byte of
 * its rank for as long as it lives: who can take it knows that the rank is gone, however it went. All locks are those
 * of open file descriptions: they work between threads too, and vanish with the process.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_FILE_LOG_H
#define KI_BOOT_FILE_LOG_H

#include "store_kind.h"
#include <sys/types.h>

typedef enum ki_record_kind {
    KI_RECORD_HEADER = 1, /* the first: a = size of the job */
    KI_RECORD_JOIN,       /* arg = nonce */
    KI_RECORD_ACK,        /* rank 0 has seen the JOIN with nonce arg */
    KI_RECORD_SET,        /* key, value */
    KI_RECORD_GATHER, /* key, a = index, b = count, arg = nbytes, value = contribution, then b world ranks or none */
    KI_RECORD_ABORT,  /* arg */
    KI_RECORD_LEFT,
    KI_RECORD_DIED,
    KI_RECORD_FAILURE /* arg */
} ki_record_kind;

typedef struct ki_record {
    uint64_t magic, hash;
    uint32_t kind, key_nbytes;
    int32_t rank, a, b;
    uint32_t reserved;
    uint64_t arg, value_nbytes;
} ki_record;

typedef struct ki_file_log {
    int fd;       /* -1: none */
    off_t offset; /* of the next record to read */
    dev_t device;
    ino_t inode;
    unsigned char *body;
    size_t body_capacity;
} ki_file_log;

/* Opens a file that is there. KITH_ERR_UNREACHABLE (quiet): it is not. */
kith_status ki_file_log_open(ki_file_log *log, const char *path);
/* Makes a new file of another name beside path, for ki_file_log_publish(). */
kith_status ki_file_log_create(ki_file_log *log, const char *path);
/* Gives it its name, in place of what had it. */
kith_status ki_file_log_publish(const char *path);
/* Removes what create() made, when publish() was not called. */
void ki_file_log_discard(const char *path);
void ki_file_log_close(ki_file_log *log);

/* Is path another file now, or none? */
bool ki_file_log_is_replaced(const ki_file_log *log, const char *path);

/* Takes the rank's byte. False: somebody has it, or the file system has no locks (errno). */
bool ki_file_log_hold(ki_file_log *log, int rank);
/* Does another handle hold it? */
bool ki_file_log_is_held(const ki_file_log *log, int rank);

/* record's magic and hash are filled here; more: a second part of the value. */
kith_status ki_file_log_append(ki_file_log *log, ki_record *record, const char *key, const void *value, size_t nbytes,
                               const void *more, size_t more_nbytes, int64_t deadline_ns);

/* The next whole record; false: none yet. key (key_nbytes) and value are valid until the next call. */
bool ki_file_log_next(ki_file_log *log, ki_record *record, const unsigned char **key, const unsigned char **value);

#endif
