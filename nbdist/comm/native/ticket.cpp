#include "ticket.h"

namespace nbdist {

void Ticket::wait(Vigil& vigil) {
    // The work itself watches over the peers, and ends when the group does: here only signals matter.
    while (!done()) {
        bell_.sleep(Vigil::slice, [this] { return done(); });
        if (!done()) vigil.run_signals(kind_);
    }
    rethrow();
}

void Ticket::rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
}

void Ticket::finish(std::exception_ptr error) {
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    bell_.ring();
}

}  // namespace nbdist
