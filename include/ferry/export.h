/* SPDX-License-Identifier: Apache-2.0 */
/* How a public symbol is marked. */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

#define FERRY_API __attribute__((visibility("default")))

#endif
