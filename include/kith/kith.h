/* kith/kith.h - process groups, collectives and messages for model-parallel trainers.
 *
 *     #include <kith/kith.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         kith_ctx *ctx;
 *         if (kith_init(NULL, &ctx) != KITH_OK) return fprintf(stderr, "%s\n", kith_error_detail()), 1;
 *         float x = (float)kith_rank(ctx) + 1;
 *         kith_status s = kith_all_reduce(kith_world(ctx), &x, &x, 1, KITH_F32, KITH_SUM);
 *         if (kith_rank(ctx) == 0) printf("%s: %g\n", kith_status_name(s), x);
 *         kith_finalize(ctx);
 *         return s != KITH_OK;
 *     }
 *
 * Run it with `kith run -n 4 -- ./a.out`, mpirun, srun or torchrun's environment: it prints "ok: 10".
 *
 * The parts, in the order in which a newcomer needs them:
 *   context.h   join the job               group.h   sets of ranks            mesh.h   named axes of ranks
 *   coll.h      collectives                p2p.h     messages                 request.h  what was started
 *   dtype.h     element types              op.h      reductions               mem.h    memory all ranks can reach
 *   topology.h  what the machine is        placement.h  where ranks go        plan.h     what a layout costs
 *   schedule.h  pipeline plans as data     pipeline.h   running them
 *   tensor.h    views of numbers           layers.h     layers split over ranks  transformer.h  blocks and models
 *   optim.h     from gradients to weights  checkpoint.h  models in files           device.h   GPUs
 *   status.h    statuses, error text, log  version.h                          backend.h  for writers of backends
 *
 * Rules for all of them: functions return a kith_status (see status.h); outputs are written on success only; a
 * context and its objects are used by one thread at a time; every wait has a deadline (context, group or call; 0
 * means none); the library never exits, aborts or prints.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_KITH_H
#define KITH_KITH_H

#include <kith/checkpoint.h>
#include <kith/coll.h>
#include <kith/context.h>
#include <kith/device.h>
#include <kith/dtype.h>
#include <kith/group.h>
#include <kith/layers.h>
#include <kith/mem.h>
#include <kith/mesh.h>
#include <kith/op.h>
#include <kith/optim.h>
#include <kith/p2p.h>
#include <kith/pipeline.h>
#include <kith/placement.h>
#include <kith/plan.h>
#include <kith/request.h>
#include <kith/schedule.h>
#include <kith/status.h>
#include <kith/tensor.h>
#include <kith/topology.h>
#include <kith/transformer.h>
#include <kith/version.h>

#endif
