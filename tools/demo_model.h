/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's arithmetic: layers of a multi-layer perceptron in single precision.
 *
 * An activation is `rows` rows of `width` floats. Weights are stored as panels of
 * DEMO_PANEL_COLUMNS columns, one after the other, each row by row, so that a layer reads them from
 * front to back once for every few rows. Each output is a sum over the inputs from first to last,
 * whatever the number of rows, with no multiplication fused into an addition: the result has the
 * same bits however the rows are split into micro-batches.
 */
#ifndef DEMO_MODEL_H
#define DEMO_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define DEMO_PANEL_COLUMNS 16

/* Computes out = rectify(in x weights). out overlaps neither in nor weights. */
void demo_layer_compute(size_t width, size_t rows, const float *weights, const float *in,
                        float *out);

/* Fills a layer's weights from a seed, scaled so that activations neither grow nor fade. */
void demo_weights_fill(float *weights, size_t width, uint64_t seed);

/* Fills activations with bytes as numbers between -1 and 1, from the start again when they end. */
void demo_input_fill(float *activations, size_t count, const unsigned char *bytes,
                     size_t byte_count);

#endif
