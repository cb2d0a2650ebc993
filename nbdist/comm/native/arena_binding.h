// What Python sees of an arena.
#pragma once

#include <nanobind/nanobind.h>

#include "arena.h"

namespace nbdist {

void bind_arena(nanobind::module_& m);

// Throws nanobind::value_error unless the stretch lies in the window, and the window shows all of `among`.
// A rank that is not among them needs none.
void check_stretch(const Window* window, const Stretch& stretch, const std::vector<int>& among, int rank);

}  // namespace nbdist
