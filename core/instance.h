/* core/instance.h - a backend opened for a context, and the services it is handed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_INSTANCE_H
#define KI_INSTANCE_H

#include "object.h"

/* The context's instance of the backend of that name, opened on first use. Local. */
kith_status ki_instance_get(kith_ctx *ctx, const char *name, ki_instance **instance);

void ki_instances_close(kith_ctx *ctx);

/* Value of a setting: the table's row, else the environment, else default_value. Borrowed. */
const char *ki_ctx_setting(const kith_ctx *ctx, const char *name, const char *default_value);

#endif
