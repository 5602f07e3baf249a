/* SPDX-License-Identifier: Apache-2.0 */
/* The plain computation: no devices, one layer after the other, on the processor. */
#ifndef DEMO_EXPECTED_H
#define DEMO_EXPECTED_H

#include <stddef.h>

/*
 * Takes `rows` rows of `width` numbers through all layers, each processor some of the rows.
 *  weights  of each layer, as demo_layer_compute takes them
 *  in       not changed
 *  out_p    receives the output, for free(); NULL on failure
 * Returns 0, or the exit status after a message on stderr.
 */
int demo_expected_make(size_t width, size_t rows, const float *const *weights, size_t layer_count,
                       const float *in, float **out_p);

#endif
