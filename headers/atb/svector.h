/* atb::SVector, the container of ATB's interfaces. C++ only. The order of the members is the ABI. */
#ifndef CANN_MLA_ATB_SVECTOR_H
#define CANN_MLA_ATB_SVECTOR_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <type_traits>

namespace atb {

constexpr std::size_t MAX_SVECTOR_SIZE = 256;
constexpr std::size_t DEFAULT_SVECTOR_SIZE = 64;

struct MaxSizeExceeded : public std::exception {};

/* Up to 64 elements lie inside the object; from there on, room for 256 is taken from malloc. */
template <class T>
class SVector {
    static_assert(std::is_trivially_copyable<T>::value, "elements are copied into raw memory");

public:
    SVector() : storage_() {}
    SVector(std::initializer_list<T> list) : storage_() { assign(list.begin(), list.size()); }
    explicit SVector(std::size_t size, const T &value = T()) : storage_()
    {
        resize(size);
        for (T &element : *this) element = value;
    }
    SVector(const SVector &other) : storage_() { assign(other.data(), other.size_); }
    SVector &operator=(const SVector &other)
    {
        if (this != &other) assign(other.data(), other.size_);
        return *this;
    }
    SVector &operator=(std::initializer_list<T> list)
    {
        assign(list.begin(), list.size());
        return *this;
    }
    ~SVector() { std::free(heap_); }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    void clear() noexcept { size_ = 0; }
    T *data() noexcept { return heap_ != nullptr ? heap_ : storage_; }
    const T *data() const noexcept { return heap_ != nullptr ? heap_ : storage_; }
    T *begin() noexcept { return data(); }
    const T *begin() const noexcept { return data(); }
    T *end() noexcept { return data() + size_; }
    const T *end() const noexcept { return data() + size_; }

    T &at(std::size_t i) { return data()[checked(i)]; }
    const T &at(std::size_t i) const { return data()[checked(i)]; }
    T &operator[](std::size_t i) { return data()[checked(i)]; }
    const T &operator[](std::size_t i) const { return data()[checked(i)]; }

    void push_back(const T &value)
    {
        T copy = value; /* it may lie in this very container */
        resize(size_ + 1);
        data()[size_ - 1] = copy;
    }
    void resize(std::size_t size)
    {
        reserve(size);
        size_ = size;
    }
    void reserve(std::size_t size)
    {
        if (size > MAX_SVECTOR_SIZE) throw MaxSizeExceeded();
        if (size <= DEFAULT_SVECTOR_SIZE || (heap_ != nullptr && size <= capacity_)) return;
        T *room = static_cast<T *>(std::calloc(MAX_SVECTOR_SIZE, sizeof(T)));
        if (room == nullptr) throw std::bad_alloc();
        for (std::size_t i = 0; i < size_; ++i) room[i] = data()[i];
        std::free(heap_);
        heap_ = room;
        capacity_ = MAX_SVECTOR_SIZE;
    }

private:
    void assign(const T *elements, std::size_t count)
    {
        resize(count);
        for (std::size_t i = 0; i < count; ++i) data()[i] = elements[i];
    }
    std::size_t checked(std::size_t i) const
    {
        if (i >= size_) throw std::out_of_range("SVector: index out of range");
        return i;
    }

    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
    T storage_[DEFAULT_SVECTOR_SIZE + 1];
    T *heap_ = nullptr;
};

}  // namespace atb

#endif /* __cplusplus */

#endif
