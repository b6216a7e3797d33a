/* tests/backends/plugin/test_plugin.c - the example backend by itself; plugin.sh builds the module and says where it
 * is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../stub/stub.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Rank 1 dies while the others wait for it. */
static void dying(stub *s)
{
    unsigned char buffer[100];
    kith_be_slot slot;
    kith_be_msg msg;
    if (s->host.rank == 1)
        kill(getpid(), SIGKILL);
    stub_recv_start(s->world, buffer, sizeof buffer, 1, 1, &slot, &msg);
    CHECK_EQUAL(stub_wait(s->world, &slot, NULL), KITH_ERR_PEER_FAILED);
    stub_group_free(s->world);
    s->backend->close(s->be);
    _exit(0);
}

int main(void)
{
    const kith_backend *backend = stub_load("libkith_socket.so");
    int failures = 0;
    if (backend == NULL)
        return 1;
    for (int ranks = 2; ranks <= 4; ranks++)
        for (const stub_scenario *scenario = stub_message_scenarios; scenario->fn != NULL; scenario++)
            if (stub_fork(backend, ranks, scenario->fn, -1) != 0) {
                printf("FAILED: %s with %d ranks\n", scenario->name, ranks);
                failures++;
            }
    failures += stub_fork(backend, 3, dying, 1) != 0;
    return failures > 0;
}
