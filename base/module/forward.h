/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of base/ that modules use, by their names in base/. A module links nothing of the
 * library, so it is made with this file, which forwards to the table that the library gave it.
 */
#ifndef FRY_BASE_MODULE_FORWARD_H
#define FRY_BASE_MODULE_FORWARD_H

#include "base/module.h"

/* Call it before all else; the table lives as long as the process. */
void fry_forward_init(const fry_module_host *host);

/* The calling thread's state. */
fry_module_thread *fry_forward_thread(void);

#endif
