/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a reshard. */
#ifndef RESHARD_SVG_H
#define RESHARD_SVG_H

#include "tools/reshard_report.h"

/* The bytes between any two members, and out of and into each. False: no memory. */
bool reshard_svg_write(const reshard_report *report, FILE *to);

#endif
