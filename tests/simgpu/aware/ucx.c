/* tests/simgpu/aware/ucx.c - a CUDA-aware UCX out of one that is not: libucp.so.0 in a folder of its own, for
 * LD_LIBRARY_PATH.
 *
 * It has the functions that backends/ucx looks up, and hands them on to the real libucp (UCP_REAL). Its context says
 * that it takes CUDA's memory; data on a simulated device is bounced through host memory around the same call of the
 * real library. Data must be named with the type of memory that it has.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

#define LINKAGE __attribute__((visibility("default")))

static void *library;

/* With this library, not later: the backend has UCX read its environment as it likes it then. */
__attribute__((constructor)) static void open_real(void)
{
    library = dlopen(UCP_REAL, RTLD_NOW | RTLD_LOCAL);
}

static void *real(const char *name)
{
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "aware: no %s in %s\n", name, UCP_REAL);
        abort();
    }
    return function;
}

/* A function of the real library. */
#define REAL(name) ((__typeof__(&name))real(#name))

#define FORWARD(type, name, PARAMETERS, ARGUMENTS)                                                                     \
    LINKAGE type name PARAMETERS                                                                                       \
    {                                                                                                                  \
        return REAL(name) ARGUMENTS;                                                                                   \
    }

FORWARD(const char *, ucp_get_version_string, (void), ())
FORWARD(void, ucp_get_version, (unsigned *major, unsigned *minor, unsigned *release), (major, minor, release))
FORWARD(ucs_status_t, ucp_config_read, (const char *prefix, const char *file, ucp_config_t **config),
        (prefix, file, config))
FORWARD(ucs_status_t, ucp_config_modify, (ucp_config_t * config, const char *name, const char *value),
        (config, name, value))
FORWARD(void, ucp_config_release, (ucp_config_t * config), (config))
FORWARD(ucs_status_t, ucp_init_version,
        (unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
         ucp_context_h *context),
        (major, minor, params, config, context))
FORWARD(void, ucp_cleanup, (ucp_context_h context), (context))
FORWARD(ucs_status_t, ucp_worker_create,
        (ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker), (context, params, worker))
FORWARD(void, ucp_worker_destroy, (ucp_worker_h worker), (worker))
FORWARD(ucs_status_t, ucp_worker_get_address, (ucp_worker_h worker, ucp_address_t **address, size_t *nbytes),
        (worker, address, nbytes))
FORWARD(void, ucp_worker_release_address, (ucp_worker_h worker, ucp_address_t *address), (worker, address))
FORWARD(ucs_status_t, ucp_worker_set_am_recv_handler, (ucp_worker_h worker, const ucp_am_handler_param_t *param),
        (worker, param))
FORWARD(unsigned, ucp_worker_progress, (ucp_worker_h worker), (worker))
FORWARD(ucs_status_t, ucp_worker_get_efd, (ucp_worker_h worker, int *fd), (worker, fd))
FORWARD(ucs_status_t, ucp_worker_arm, (ucp_worker_h worker), (worker))
FORWARD(ucs_status_ptr_t, ucp_worker_flush_nbx, (ucp_worker_h worker, const ucp_request_param_t *param),
        (worker, param))
FORWARD(ucs_status_t, ucp_ep_create, (ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep),
        (worker, params, ep))
FORWARD(ucs_status_ptr_t, ucp_ep_close_nbx, (ucp_ep_h ep, const ucp_request_param_t *param), (ep, param))
FORWARD(ucs_status_t, ucp_request_check_status, (void *request), (request))
FORWARD(void, ucp_request_free, (void *request), (request))
FORWARD(const char *, ucs_status_string, (ucs_status_t status), (status))

LINKAGE ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attributes)
{
    ucs_status_t status = REAL(ucp_context_query)(context, attributes);
    if ((attributes->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES) != 0)
        attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    return status;
}

/* A transfer under way. */
typedef struct pending {
    void *copy, *device;
    size_t nbytes;
    ucp_request_param_t param; /* the caller's */
} pending;

/* Is the transfer one of device memory? What is named and what is there must agree. */
static bool is_on_device(const void *buffer, size_t nbytes, const ucp_request_param_t *param)
{
    bool is_named =
        (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) != 0 && param->memory_type == UCS_MEMORY_TYPE_CUDA;
    if (nbytes > 0 && is_named != aware_is_device(buffer)) {
        fprintf(stderr, "aware: %p is %s memory and was given to UCX as %s memory\n", buffer,
                is_named ? "host" : "device", is_named ? "device" : "host");
        abort();
    }
    return nbytes > 0 && is_named;
}

static pending *bounce(const ucp_request_param_t *param, void *device, size_t nbytes, ucp_request_param_t *own)
{
    pending *made = (pending *)aware_alloc(sizeof *made);
    *made = (pending){ .copy = aware_alloc(nbytes), .device = device, .nbytes = nbytes, .param = *param };
    *own = *param;
    own->memory_type = UCS_MEMORY_TYPE_HOST;
    own->user_data = made;
    return made;
}

static void let_go(pending *p)
{
    free(p->copy);
    free(p);
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    pending *p = (pending *)user_data;
    p->param.cb.send(request, status, p->param.user_data);
    let_go(p);
}

static void on_received(void *request, ucs_status_t status, size_t nbytes, void *user_data)
{
    pending *p = (pending *)user_data;
    if (status == UCS_OK)
        aware_copy(p->device, p->copy, p->nbytes);
    p->param.cb.recv_am(request, status, nbytes, p->param.user_data);
    let_go(p);
}

LINKAGE ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_nbytes,
                                         const void *buffer, size_t nbytes, const ucp_request_param_t *param)
{
    if (!is_on_device(buffer, nbytes, param))
        return REAL(ucp_am_send_nbx)(ep, id, header, header_nbytes, buffer, nbytes, param);
    ucp_request_param_t own;
    pending *p = bounce(param, (void *)(uintptr_t)buffer, nbytes, &own);
    own.cb.send = on_sent;
    aware_copy(p->copy, buffer, nbytes);
    ucs_status_ptr_t request = REAL(ucp_am_send_nbx)(ep, id, header, header_nbytes, p->copy, nbytes, &own);
    if (request == NULL || UCS_PTR_IS_ERR(request))
        let_go(p);
    return request;
}

LINKAGE ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data, void *buffer, size_t nbytes,
                                              const ucp_request_param_t *param)
{
    if (!is_on_device(buffer, nbytes, param))
        return REAL(ucp_am_recv_data_nbx)(worker, data, buffer, nbytes, param);
    ucp_request_param_t own;
    pending *p = bounce(param, buffer, nbytes, &own);
    own.cb.recv_am = on_received;
    aware_spoil(buffer, nbytes);
    ucs_status_ptr_t request = REAL(ucp_am_recv_data_nbx)(worker, data, p->copy, nbytes, &own);
    if (UCS_PTR_IS_ERR(request))
        let_go(p);
    return request; /* never at once: the backend asks for that */
}
