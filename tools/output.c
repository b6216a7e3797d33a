/* tools/output.c - see output.h. A file is written beside the one that it replaces and takes its name in the end, so a
 * full disk leaves the old one as it was.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ki_output_open(ki_output *self, const ki_command *command)
{
    *self = (ki_output){ .command = command };
    self->stream = open_memstream(&self->bytes, &self->nbytes);
    if (self->stream == NULL)
        fprintf(stderr, "kith %s: memory is short\n", command->name);
    return self->stream != NULL;
}

void ki_output_drop(ki_output *self)
{
    if (self->stream != NULL)
        fclose(self->stream);
    free(self->bytes);
    *self = (ki_output){ .command = self->command };
}

/* 0, or errno. */
static int write_to(FILE *file, const char *bytes, size_t nbytes)
{
    errno = 0;
    if (fwrite(bytes, 1, nbytes, file) == nbytes && fflush(file) == 0)
        return 0;
    return errno != 0 ? errno : EIO;
}

static int write_and_close(FILE *file, const char *bytes, size_t nbytes)
{
    int cause = write_to(file, bytes, nbytes);
    if (fclose(file) != 0 && cause == 0)
        cause = errno;
    return cause;
}

/* Devices and pipes; and files that another one could not stand in for: with several names, or somebody else's. */
static bool is_written_in_place(const char *path, mode_t *mode)
{
    struct stat found;
    if (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0)
        return true;
    if (stat(path, &found) != 0) {
        mode_t mask = umask(0);
        umask(mask);
        *mode = 0666 & ~mask;
        return lstat(path, &found) == 0; /* a link to nothing: what it names is made */
    }
    *mode = found.st_mode & 07777;
    return !S_ISREG(found.st_mode) || found.st_nlink > 1 || found.st_uid != geteuid() || access(path, W_OK) != 0;
}

/* Opens a file beside path, which may be a link, for the name that *real gets (free()). NULL: that cannot be. */
static FILE *open_beside(const char *path, mode_t mode, char **real, char **beside)
{
    *real = realpath(path, NULL);
    if (*real == NULL)
        *real = strdup(path);
    if (*real == NULL || asprintf(beside, "%s.XXXXXX", *real) < 0) {
        *beside = NULL;
        return NULL;
    }
    int fd = mkostemp(*beside, O_CLOEXEC);
    if (fd < 0)
        return NULL;
    FILE *file = fchmod(fd, mode) == 0 ? fdopen(fd, "wb") : NULL;
    if (file == NULL) {
        close(fd);
        unlink(*beside);
    }
    return file;
}

/* What was there under the name stays until all of the new is on the disk. */
static int replace_file(FILE *file, const char *beside, const char *real, const char *bytes, size_t nbytes)
{
    int cause = write_and_close(file, bytes, nbytes);
    if (cause == 0 && rename(beside, real) != 0)
        cause = errno;
    if (cause != 0)
        unlink(beside);
    return cause;
}

static int write_file(const char *path, const char *bytes, size_t nbytes)
{
    char *real = NULL, *beside = NULL;
    mode_t mode = 0;
    FILE *file = is_written_in_place(path, &mode) ? NULL : open_beside(path, mode, &real, &beside);
    int cause;
    if (file != NULL)
        cause = replace_file(file, beside, real, bytes, nbytes);
    else if ((file = fopen(path, "wb")) != NULL) /* also where the folder takes no new files */
        cause = write_and_close(file, bytes, nbytes);
    else
        cause = errno;
    free(real);
    free(beside);
    return cause;
}

int ki_output_close(ki_output *self, const char *path, bool is_binary)
{
    const char *command = self->command->name;
    int cause = fclose(self->stream) == 0 ? 0 : ENOMEM;
    self->stream = NULL;
    if (cause == 0 && path != NULL)
        cause = write_file(path, self->bytes, self->nbytes);
    else if (cause == 0 && is_binary && isatty(STDOUT_FILENO)) {
        fprintf(stderr, "kith %s: a picture is not written to a terminal; use --output FILE\n", command);
        ki_output_drop(self);
        return KI_EXIT_USAGE;
    } else if (cause == 0)
        cause = write_to(stdout, self->bytes, self->nbytes);
    ki_output_drop(self);
    if (cause == 0)
        return KI_EXIT_OK;
    fprintf(stderr, "kith %s: cannot write %s: %s\n", command, path != NULL ? path : "standard output",
            strerror(cause));
    return KI_EXIT_USAGE;
}

/* The folder's own name and the file's, of a file that need not be there; free(). NULL: there is no such folder. */
static char *plain_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    char *plain = NULL, *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    char *real = folder != NULL ? realpath(folder, NULL) : NULL;
    if (real == NULL || asprintf(&plain, "%s/%s", real, name) < 0)
        plain = NULL;
    free(folder);
    free(real);
    return plain;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    bool has_first = stat(a, &first) == 0, has_second = stat(b, &second) == 0;
    if (has_first && has_second)
        return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    if (has_first || has_second)
        return false;
    char *plain_a = plain_path(a), *plain_b = plain_path(b);
    bool is_same = plain_a != NULL && plain_b != NULL && strcmp(plain_a, plain_b) == 0;
    free(plain_a);
    free(plain_b);
    return is_same;
}

const char *ki_output_repeated(const char *const *paths, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t before = 0; paths[i] != NULL && paths[i][0] != 0 && before < i; before++)
            if (paths[before] != NULL && paths[before][0] != 0 && is_same_file(paths[before], paths[i]))
                return paths[i];
    return NULL;
}
