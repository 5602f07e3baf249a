/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of public symbols, and macros for what C and C++ spell differently. */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

#define FERRY_API __attribute__((visibility("default")))

/*
 * FERRY_INT_ENUM, after an enum's name, makes int its underlying type. C compilers choose int by
 * themselves. In C++ only an enum of a fixed type may hold values without a name, as a user's own
 * statuses are.
 *
 * FERRY_SIZED_INIT(type) initialises a struct whose first field is struct_size; the other fields
 * are zero. C++ had no designated initializers before C++20.
 */
#ifdef __cplusplus

#define FERRY_INT_ENUM : int
#define FERRY_SIZED_INIT(type) ferry_init_sized<type>()

extern "C++" {
template <typename Struct> inline Struct ferry_init_sized()
{
    Struct made = Struct();
    made.struct_size = sizeof(Struct);
    return made;
}
}

#else

#define FERRY_INT_ENUM
#define FERRY_SIZED_INIT(type)                                                                     \
    {                                                                                              \
        .struct_size = sizeof(type)                                                                \
    }

#endif

#endif
