// What Python sees of an arena.
#pragma once

#include <nanobind/nanobind.h>

#include "arena.h"
#include "group.h"

namespace nbdist {

void bind_arena(nanobind::module_& m);

// Throws nanobind::value_error unless the group is on one host, the stretch lies in the window, and the
// window shows all of `among`. A rank that is not among them needs none.
void check_stretch(const Window* window, const Stretch& stretch, const std::vector<int>& among,
                   const Group& group);

}  // namespace nbdist
