/* core/boot/tcp_url.c - addresses of TCP stores, as URL and as file (see tcp_url.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp_url.h"
#include "../base/config_value.h"
#include "../base/error.h"
#include "../base/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char valid_form[] = "valid: tcp://host:port, tcp://[IPv6]:port, or with port 0 tcp://host:0?file=/path";

static kith_status malformed(const char *rest, const char *what)
{
    return ki_fail(KITH_ERR_INVALID_ARG, "store \"tcp://%s\": %s; %s", rest, what, valid_form);
}

/* "host:port" or "[address]:port", up to end. Returns what is wrong, NULL when nothing is. */
static const char *parse_host_port(const char *text, const char *end, ki_tcp_url *url)
{
    const char *host = text, *host_end, *port;
    char digits[8] = "";
    int64_t value;
    if (*text == '[') {
        host++;
        host_end = memchr(text, ']', (size_t)(end - text));
        if (!host_end || host_end + 1 >= end || host_end[1] != ':')
            return "the address in brackets is not followed by \"]:port\"";
        port = host_end + 2;
    } else {
        host_end = memchr(text, ':', (size_t)(end - text));
        if (!host_end)
            return "the port is missing";
        port = host_end + 1;
        if (memchr(port, ':', (size_t)(end - port)))
            return "an IPv6 address needs brackets";
    }
    if (host_end == host || (size_t)(host_end - host) >= sizeof url->host)
        return "the host is empty or too long";
    if (port == end || (size_t)(end - port) >= sizeof digits)
        return "the port is not a number from 0 to 65535";
    memcpy(url->host, host, (size_t)(host_end - host));
    memcpy(digits, port, (size_t)(end - port));
    if (!ki_parse_int(digits, &value) || value < 0 || value > 65535)
        return "the port is not a number from 0 to 65535";
    url->port = (uint16_t)value;
    return NULL;
}

static bool parse_token(const char *text, size_t nbytes, uint64_t *token)
{
    char digits[20], *end;
    if (nbytes == 0 || nbytes > 16 || strspn(text, "0123456789abcdef") < nbytes)
        return false;
    memcpy(digits, text, nbytes);
    digits[nbytes] = '\0';
    *token = strtoull(digits, &end, 16);
    return true;
}

static const char *parse_parameters(const char *text, ki_tcp_url *url)
{
    while (*text) {
        size_t n = strcspn(text, "&");
        if (strncmp(text, "file=", 5) == 0) {
            if (n <= 5 || text[5] != '/' || n - 5 >= sizeof url->file)
                return "file= needs an absolute path of less than 512 bytes";
            memcpy(url->file, text + 5, n - 5);
            url->file[n - 5] = '\0';
        } else if (strncmp(text, "token=", 6) != 0 || !parse_token(text + 6, n - 6, &url->token)) {
            return "the parameter after ? is unknown or malformed";
        }
        text += n + (text[n] == '&');
    }
    return NULL;
}

kith_status ki_tcp_url_parse(const char *rest, ki_tcp_url *url)
{
    const char *question = strchr(rest, '?'), *end = question ? question : rest + strlen(rest);
    memset(url, 0, sizeof *url);
    const char *wrong = parse_host_port(rest, end, url);
    if (!wrong && question)
        wrong = parse_parameters(question + 1, url);
    return wrong ? malformed(rest, wrong) : KITH_OK;
}

void ki_tcp_url_text(const ki_tcp_url *url, char *text, size_t nbytes)
{
    bool is_v6 = strchr(url->host, ':') != NULL;
    int n =
        snprintf(text, nbytes, "tcp://%s%s%s:%u", is_v6 ? "[" : "", url->host, is_v6 ? "]" : "", (unsigned)url->port);
    if (url->token != 0 && n > 0 && (size_t)n < nbytes)
        snprintf(text + n, nbytes - (size_t)n, "?token=%" PRIx64, url->token);
}

/* ---- the file ---- */

static kith_status cannot_write(const char *path)
{
    return ki_fail(KITH_ERR_NO_RESOURCE, "store: the file %s for the port cannot be written: %s", path,
                   strerror(errno));
}

kith_status ki_port_file_write(const char *path, const ki_tcp_url *url)
{
    char temporary[600], line[400];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    int n = snprintf(line, sizeof line, "%s %u %" PRIx64 "\n", url->host, (unsigned)url->port, url->token);
    unlink(temporary);
    if (ki_fault(KI_FAULT_OPEN)) {
        errno = EACCES;
        return cannot_write(path);
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cannot_write(path);
    ssize_t written = write(fd, line, (size_t)n);
    if (close(fd) != 0 || written != n || rename(temporary, path) != 0) {
        kith_status s = cannot_write(path);
        unlink(temporary);
        return s;
    }
    return KITH_OK;
}

static bool is_folder_public(const char *path)
{
    char folder[512];
    struct stat st;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    return stat(folder, &st) == 0 && (st.st_mode & S_IWOTH);
}

static kith_status parse_line(const char *path, char *line, ki_tcp_url *url)
{
    char *next = NULL, *host = strtok_r(line, " \n", &next), *port = strtok_r(NULL, " \n", &next),
         *token = strtok_r(NULL, " \n", &next);
    int64_t value;
    uint64_t token_value;
    if (!host || !port || !token || strlen(host) >= sizeof url->host || !ki_parse_int(port, &value) || value <= 0 ||
        value > 65535 || !parse_token(token, strlen(token), &token_value))
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "the file %s holds no address of a store", path);
    snprintf(url->host, sizeof url->host, "%s", host);
    url->port = (uint16_t)value;
    url->token = token_value;
    return KITH_OK;
}

kith_status ki_port_file_read(const char *path, ki_tcp_url *url)
{
    char line[400];
    struct stat st;
    int fd = ki_fault(KI_FAULT_OPEN) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "rank 0 has not written the file %s", path);
    ssize_t n = read(fd, line, sizeof line - 1);
    bool is_known = fstat(fd, &st) == 0;
    close(fd);
    if (!is_known || n < 0)
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "the file %s cannot be read", path);
    if (is_folder_public(path) && st.st_uid != geteuid())
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "the file %s belongs to another user (%ld)", path, (long)st.st_uid);
    line[n] = '\0';
    return parse_line(path, line, url);
}
