// Copies into shared memory that another core is about to read.
#pragma once

#include <cstddef>

namespace nbdist {

// Copy into a slot. From 16 KiB up the stores go round the cache: the reader's core still holds the slot's
// old lines, and taking each back costs up to ten times a plain write (both cores doing so at once).
// `to` is aligned to 64 bytes. The bytes are visible to whoever sees a later release store.
void copy_to_slot(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace nbdist
