/* tests/simgpu/nccl/board.c - see board.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

sim_board *sim_board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *ptr = MAP_FAILED;
    if (ftruncate(fd, sizeof(sim_board)) == 0)
        ptr = mmap(NULL, sizeof(sim_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return ptr == MAP_FAILED ? NULL : (sim_board *)ptr;
}

void sim_board_close(sim_board *board)
{
    if (board != NULL)
        munmap(board, sizeof *board);
}

void sim_board_ring(sim_board *board, int rank)
{
    atomic_uint *bell = &board->seats[rank].bell;
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void sim_board_ring_all(sim_board *board, int size)
{
    for (int r = 0; r < size; r++)
        sim_board_ring(board, r);
}

void sim_board_sleep(sim_board *board, int rank, unsigned heard)
{
    struct timespec most = { 0, 1000000 };
    syscall(SYS_futex, &board->seats[rank].bell, FUTEX_WAIT, heard, &most, NULL, 0);
}
