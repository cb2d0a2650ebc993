// What Python sees of the errors of errors.h: those of nbdist.errors.
#pragma once

namespace nbdist {

void bind_errors();

}  // namespace nbdist
