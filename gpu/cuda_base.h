/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of base/ the module uses, by the names base/ has for it: a module links with nothing of the
 * library's, so these forward to the table that the library gave it.
 */
#ifndef FRY_GPU_CUDA_BASE_H
#define FRY_GPU_CUDA_BASE_H

#include "gpu/module.h"

/* Before anything else; the table lives as long as the process. */
void fry_cuda_base_init(const fry_module_host *host);

/* The calling thread's. */
fry_module_thread *fry_cuda_thread(void);

#endif
