// What every call of the C interface shares: exceptions become statuses, structs of any version are read and
// written, and handles are looked up, never followed.
#pragma once

#include "fail.h"
#include "memory_gate.h"
#include "scoria.h"
#include "system.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace scoria::c_api {

/// Keeps `text` for scoria_last_error.
scoria_status report(Status status, const char* text) noexcept;

/// Runs `call`; whatever it throws becomes a status, by way of `tell`.
template <class Call, class Tell = decltype(&report)>
scoria_status guarded(Call call, Tell tell = &report) noexcept {
    try {
        if (vk::MemoryGate::asking())
            fail(Status::busy, "scoria.h", "expected no call from inside on_allocate or on_free");
        call();
        return SCORIA_OK;
    } catch (const Error& error) {
        return tell(error.status(), error.what());
    } catch (const std::bad_alloc&) {
        return tell(Status::out_of_host_memory, "[host] out of memory");
    } catch (const std::exception& error) {
        return tell(Status::failed, error.what());
    } catch (...) {
        return tell(Status::failed, "[scoria] unknown failure");
    }
}

inline void require(bool condition, std::string_view what) {
    if (!condition) fail(Status::bad_argument, "scoria.h", "expected ", what);
}

/// Errors: bad_argument.
inline std::string_view text_of(const char* text, size_t bytes) {
    require(text || !bytes, "a text, got NULL");
    require(bytes <= PTRDIFF_MAX, "fewer bytes");
    return {text, bytes};
}

/// Larger structs than any version of this interface will have: what is beyond is no size.
inline constexpr size_t largest_struct = 4096;

template <class T> void check_size(size_t size) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size < sizeof(size_t) || size > largest_struct || size % alignof(T) != 0)
        fail(Status::bad_argument, "scoria.h", "expected `size` to be the struct's, ", sizeof(T),
             " in this version, got ", size);
}

/// So that what a later version puts there is never taken for this one's silence.
template <class T> void reserved_is_zero(const T& given) {
    if constexpr (requires { given.reserved; }) require(given.reserved == 0, "`reserved` to be 0");
    if constexpr (requires { given.reserved2; }) require(given.reserved2 == 0, "`reserved2` to be 0");
}

/// A caller's struct of any version: members it does not have keep their defaults.
template <class T> T versioned(const T* given, const T& defaults) {
    require(given != nullptr, "a struct, got NULL");
    check_size<T>(given->size);
    const auto* bytes = reinterpret_cast<const std::byte*>(given);
    const auto set = [](std::byte byte) { return byte != std::byte{0}; };
    if (given->size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + given->size, set))
        fail(Status::unsupported, "scoria.h",
             "expected members of a newer version to be 0: this library knows ", sizeof(T), " bytes of ",
             given->size);
    T result = defaults;
    std::memcpy(static_cast<void*>(&result), given, std::min(given->size, sizeof(T)));
    reserved_is_zero(result);
    return result;
}

/// Fills a caller's struct of any version; members that this version does not know become 0.
template <class T> void fill(T* to, const T& values) {
    require(to != nullptr, "a struct, got NULL");
    check_size<T>(to->size);
    const size_t size = to->size, known = std::min(size, sizeof(T));
    auto* bytes = reinterpret_cast<std::byte*>(to);
    std::memcpy(bytes, &values, known);
    std::fill(bytes + known, bytes + size, std::byte{0});
    to->size = size;
}

/// Sets the defaults of a caller's struct that was compiled with `size` bytes.
template <class T> void initialise(T* to, size_t size, const T& defaults) {
    require(to != nullptr, "a struct, got NULL");
    check_size<T>(size);
    to->size = size;
    fill(to, defaults);
}

/// Hands out an array (see scoria.h).
template <class T> void give_array(const T* from, size_t size, T* to, size_t capacity, size_t* count) {
    require(count && (to || !capacity), "a place for the results and their count");
    std::copy_n(from, std::min(capacity, size), to);
    *count = size;
}
void give_text(std::string_view from, char* to, size_t capacity, size_t* length);

/// Objects by handle. A handle is a number that never comes again, dressed as a pointer: one that is stale,
/// of the other kind, made up or of before a fork is found out.
template <class Object> class Handles {
  public:
    ~Handles() {
        // The process ends, and the driver may have gone before: what the host left is left alone.
        if (!objects_.empty()) (void)new (std::nothrow) auto(std::move(objects_));
    }
    uintptr_t add(std::shared_ptr<Object> object, uintptr_t handle) {
        const std::lock_guard lock(mutex_);
        objects_.emplace(handle, Entry{std::move(object), process_id()});
        return handle;
    }
    /// Errors: bad_argument.
    std::shared_ptr<Object> find(const void* handle, std::string_view kind) const {
        const std::lock_guard lock(mutex_);
        const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
        if (found == objects_.end())
            fail(Status::bad_argument, "scoria.h", "expected a live ", kind, ", got ",
                 handle ? "what is none" : "NULL");
        // The driver's threads are not in a child, which would wait for them for ever.
        require(found->second.process == process_id(), "a handle of this process, got one of before a fork");
        return found->second.object;
    }
    /// Ends an object that no call uses, on this thread and before it returns: others hold it for a moment at
    /// most, as those do whose call is just over, or is refused.
    void end(const void* handle) {
        std::unique_lock lock(mutex_);
        const auto node = objects_.extract(reinterpret_cast<uintptr_t>(handle));
        lock.unlock();
        while (node && node.mapped().object.use_count() > 1) std::this_thread::yield();
    }

  private:
    struct Entry {
        std::shared_ptr<Object> object;
        uint64_t process;
    };
    mutable std::mutex mutex_;
    std::unordered_map<uintptr_t, Entry> objects_;
};

}  // namespace scoria::c_api
