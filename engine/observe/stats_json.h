/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's figures as JSON. */
#ifndef FRY_ENGINE_OBSERVE_STATS_JSON_H
#define FRY_ENGINE_OBSERVE_STATS_JSON_H

#include "engine/engine.h"
#include "engine/observe/dump_text.h"

#define FRY_STATS_FORMAT 1 /* of the answers; a reader refuses one that it does not know */

/* Prints the answer to "stats"; stats_socket.h says what is in it. */
void fry_stats_json_print(fry_text *text, const ferry_engine *engine, const ferry_stats *stats);

/* Prints an answer that says why there is no other. The words need no escapes. */
void fry_stats_json_error(fry_text *text, ferry_status status, const char *words);

#endif
