/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of base/ that the module uses, by their names in base/. A module links nothing of the
 * library, so these forward to the table that the library gave it.
 */
#ifndef FRY_GPU_CUDA_BASE_H
#define FRY_GPU_CUDA_BASE_H

#include "gpu/module.h"

/* Call it before all else; the table lives as long as the process. */
void fry_cuda_base_init(const fry_module_host *host);

/* The calling thread's state. */
fry_module_thread *fry_cuda_thread(void);

#endif
