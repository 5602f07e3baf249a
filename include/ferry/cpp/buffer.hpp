/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and spans in C++. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_BUFFER_HPP
#define FERRY_CPP_BUFFER_HPP

#include <ferry/cpp/error.hpp>
#include <ferry/cpp/handle.hpp>
#include <ferry/device.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#define FERRY_CPP_SPAN 1
#endif
#endif

namespace ferry
{

class buffer : public detail::shared_handle<ferry_buffer, ferry_buffer_retain, ferry_buffer_release>
{
  public:
    using shared_handle::shared_handle;

    static result<buffer> try_make(ferry_device *device, const ferry_buffer_options &options)
    {
        ferry_buffer *made = nullptr;
        ferry_error *why = nullptr;
        ferry_status status = ferry_buffer_create(device, &options, &made, &why);
        if (status != FERRY_OK)
            return detail::take(status, why);
        return buffer(made);
    }

    /* Memory that ferry allocates. */
    buffer(ferry_device *device, std::size_t size_bytes, ferry_memory kind = FERRY_MEMORY_DEFAULT)
    {
        ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
        options.size_bytes = size_bytes;
        options.kind = kind;
        *this = try_make(device, options).value();
    }

    /* The caller's memory, which must stay until operations on it are quiet. `wrap_source`: memory
     * that operations only read. */
    static buffer wrap(ferry_device *device, void *memory, std::size_t size_bytes)
    {
        ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
        options.size_bytes = size_bytes;
        options.memory = memory;
        return try_make(device, options).value();
    }
    static buffer wrap_source(ferry_device *device, const void *memory, std::size_t size_bytes)
    {
        ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
        options.size_bytes = size_bytes;
        options.source = memory;
        return try_make(device, options).value();
    }
#if defined(FERRY_CPP_SPAN)
    template <typename T, std::size_t extent>
    static buffer wrap(ferry_device *device, std::span<T, extent> memory)
    {
        static_assert(std::is_trivially_copyable_v<T>, "ferry moves bytes");
        if constexpr (std::is_const_v<T>)
            return wrap_source(device, memory.data(), memory.size_bytes());
        else
            return wrap(device, memory.data(), memory.size_bytes());
    }

    /* The bytes as elements of T, as many as are whole. */
    template <typename T = std::byte> std::span<T> as() const noexcept
    {
        static_assert(std::is_trivially_copyable_v<T>, "ferry moves bytes");
        return {static_cast<T *>(data()), size_bytes() / sizeof(T)};
    }
#endif

    void *data() const noexcept
    {
        return ferry_buffer_data(native_);
    }
    std::size_t size_bytes() const noexcept
    {
        return ferry_buffer_size_bytes(native_);
    }
    ferry_device *device() const noexcept
    {
        return ferry_buffer_device(native_);
    }

    ferry_span span() const noexcept
    {
        return ferry_buffer_span(native_);
    }
    ferry_span span(std::size_t offset_bytes, std::size_t size_bytes) const noexcept
    {
        return ferry_span_slice(span(), offset_bytes, size_bytes);
    }
    operator ferry_span() const noexcept
    {
        return span();
    }
};

inline ferry_access reads(ferry_span span) noexcept
{
    return {span, FERRY_READ};
}

inline ferry_access writes(ferry_span span) noexcept
{
    return {span, FERRY_WRITE};
}

inline ferry_access changes(ferry_span span) noexcept
{
    return {span, FERRY_READ_WRITE};
}

} // namespace ferry

#endif
