// Copies into shared memory that another core is about to read.
#pragma once

#include <cstddef>

namespace nbdist {

// Copy into a slot. From 16 KiB up, `streaming` stores go round the cache (stores.h says when that pays).
// `to` is aligned to 64 bytes. The bytes are visible to whoever sees a later release store.
void copy_to_slot(std::byte* to, const std::byte* from, std::size_t bytes, bool streaming);

}  // namespace nbdist
