// Memory of one rank that the others of its host write into: tensors in it are reduced where they lie.
#pragma once

#include <memory>
#include <vector>

#include "segment.h"
#include "world.h"

namespace nbdist {

// A rank's own arena, zeros at first. Like a segment it lies in no file system. What a forked child
// writes there is its own; a page that it has not written shows it what its parent's holds meanwhile.
class Arena {
  public:
    // Throws std::system_error when there is not that much memory.
    explicit Arena(std::size_t bytes);
    ~Arena();
    Arena(const Arena&) = delete;

    std::byte* data() const { return base_ + header_bytes; }
    std::size_t bytes() const { return bytes_ - header_bytes; }
    const Address& address() const { return address_; }

    static constexpr std::size_t header_bytes = 4096;  // tells who it is; the rest stays aligned to pages

  private:
    std::size_t bytes_;
    Fd fd_;
    std::byte* base_;
    Address address_;
};

// The arenas of all ranks of a group, as one of them sees them. They have one size.
class Window {
  public:
    // Throws std::runtime_error, saying why, when a peer's cannot be mapped.
    Window(std::shared_ptr<Arena> own, const std::vector<Address>& addresses, int rank);
    ~Window();
    Window(const Window&) = delete;

    std::byte* at(int rank, std::size_t offset) const { return data_[rank] + offset; }
    std::size_t bytes() const { return own_->bytes(); }
    std::size_t size() const { return data_.size(); }

  private:
    void unmap();

    std::shared_ptr<Arena> own_;
    std::vector<std::byte*> data_;
    std::size_t rank_;
    int generation_ = generation();
};

// Some elements at the same place in every arena.
struct Stretch {
    std::size_t offset;
    std::size_t count;
    DType type;

    std::size_t bytes() const { return count * size_of(type); }
};

Signature signature_of(const Stretch& stretch, Op op);

// Reduce a stretch in place over the arenas of the ranks in `among`, in their order, to the same bits;
// avg divides by their number. The others' stay as they are: they merely keep the order of operations, and
// need no window.
void all_reduce(World& world, const Window* window, const Stretch& stretch, Op op,
                const std::vector<int>& among);

}  // namespace nbdist
