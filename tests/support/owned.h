/* SPDX-License-Identifier: Apache-2.0 */
/* What a test opens is closed at the end of its block, the last first; closing it checks that all
 * was given back. */
#ifndef TESTS_SUPPORT_OWNED_H
#define TESTS_SUPPORT_OWNED_H

#define OWNED(close_) __attribute__((cleanup(close_)))

/* A variable that TYPE_open(&name, ...) fills in, and TYPE_close(&name) ends. */
#define OPENED(type_, name_)                                                                       \
    OWNED(type_##_close) type_ name_;                                                              \
    type_##_open(&(name_))
#define OPENED_WITH(type_, name_, ...)                                                             \
    OWNED(type_##_close) type_ name_;                                                              \
    type_##_open(&(name_), __VA_ARGS__)

#endif
