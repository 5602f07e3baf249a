/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the transport of pairings, and opens pairs, which may block. */
#ifndef FRY_ENGINE_MESSAGES_PAIRING_OPEN_H
#define FRY_ENGINE_MESSAGES_PAIRING_OPEN_H

#include "engine/messages/pairing.h"

/* How the module uses a device. */
fry_pair_device fry_pairing_device(fry_device *device);

/* The role, without the baton: does what pairings->job asks for. Returns how much was done. */
size_t fry_pairings_work(fry_members *members);

/* None is left; any thread. */
void fry_pairings_free(fry_pairings *pairings);

#endif
