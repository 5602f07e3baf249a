/* SPDX-License-Identifier: Apache-2.0 */
/* How a public symbol is marked, and what C and C++ have to be told differently. */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

#define FERRY_API __attribute__((visibility("default")))

/*
 * FERRY_INT_ENUM, behind an enum's name: its underlying type is int. In C compilers see to that; in
 * C++ only a fixed type may hold values that have no name, as a user's own status has none.
 *
 * FERRY_SIZED_INIT(type): initialises a struct that starts with its size; the rest is zero. C++ had
 * no designated initializers before C++20.
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
