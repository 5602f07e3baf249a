/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_model.h"

#include <math.h>

#define LANES 4
#define PANEL_VECTORS (DEMO_PANEL_COLUMNS / LANES)
#define TILE_ROWS 2 /* with a panel's columns, their sums fill half of sixteen vector registers */

typedef float demo_vector __attribute__((vector_size(LANES * sizeof(float)), may_alias));

/* Leaky, so that no layer turns everything into zeros and hides a difference. */
static float rectify(float sum)
{
    return sum > 0.0F ? sum : sum * 0.125F;
}

/* Computes `rows` (a constant once inlined, at most TILE_ROWS) rows of a panel's columns. */
static inline __attribute__((always_inline)) void
compute_tile(size_t rows, size_t width, const float *panel, const float *in, float *out)
{
    demo_vector sums[TILE_ROWS][PANEL_VECTORS] = {{{0}}};
    for (size_t k = 0; k < width; k++) {
        const demo_vector *weights = (const void *)(panel + k * DEMO_PANEL_COLUMNS);
/* Without unrolling, the sums would not stay in registers. */
#pragma GCC unroll 2
        for (size_t row = 0; row < rows; row++) {
            float value = in[row * width + k];
#pragma GCC unroll 4
            for (size_t i = 0; i < PANEL_VECTORS; i++)
                sums[row][i] += weights[i] * value;
        }
    }
#pragma GCC unroll 2
    for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 16
        for (size_t column = 0; column < DEMO_PANEL_COLUMNS; column++)
            out[row * width + column] = rectify(sums[row][column / LANES][column % LANES]);
    }
}

void demo_layer_compute(size_t width, size_t rows, const float *weights, const float *in,
                        float *out)
{
    for (size_t column = 0; column < width; column += DEMO_PANEL_COLUMNS) {
        const float *panel = weights + column * width;
        size_t row = 0;
        for (; row + TILE_ROWS <= rows; row += TILE_ROWS)
            compute_tile(TILE_ROWS, width, panel, in + row * width, out + row * width + column);
        for (; row < rows; row++)
            compute_tile(1, width, panel, in + row * width, out + row * width + column);
    }
}

void demo_weights_fill(float *weights, size_t width, uint64_t seed)
{
    /* Uniform between -limit and limit has the variance 2 / width that a rectified layer needs. */
    float limit = sqrtf(6.0F / (float)width);
    uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    for (size_t i = 0; i < width * width; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int32_t number = (int32_t)(state >> 40) - (1 << 23);
        weights[i] = (float)number / (float)(1 << 23) * limit;
    }
}

void demo_input_fill(float *activations, size_t count, const unsigned char *bytes,
                     size_t byte_count)
{
    for (size_t i = 0; i < count; i++)
        activations[i] = ((float)bytes[i % byte_count] - 127.5F) / 127.5F;
}
