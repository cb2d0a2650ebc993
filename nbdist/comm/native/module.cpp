// The Python module `_native`: addresses, counts and codes in, errors of nbdist.errors out. It knows
// nothing of torch, so one build serves every torch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <tuple>

#include "arena_binding.h"
#include "errors_binding.h"
#include "fold.h"
#include "group.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace nbdist {

namespace {

using Pointer = std::uintptr_t;
using TicketRef = std::shared_ptr<Ticket>;
using Outcome = std::optional<TicketRef>;
using Then = std::optional<nb::typed<nb::callable, void(Ticket)>>;

void* memory(Pointer address) {
    return reinterpret_cast<void*>(address);
}

void run_signal_handlers() {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A Python callable that threads of ours may call, and drop.
class Callback {
  public:
    explicit Callback(nb::object callable) : callable_(callable.release()) {}
    ~Callback() {
        nb::gil_scoped_acquire gil;
        callable_.dec_ref();
    }
    Callback(const Callback&) = delete;

    void operator()(const TicketRef& ticket) const {
        nb::gil_scoped_acquire gil;
        try {
            callable_(ticket);
        } catch (nb::python_error& error) {
            error.discard_as_unraisable(callable_);
        }
    }

  private:
    nb::handle callable_;
};

void require_fold(DType type, Op op, Fold (*choose)(DType, Op) = fold_for) {
    if (choose(type, op) != nullptr) return;
    const std::string text = std::string("nbdist does not reduce ") + name_of(type) + " with " + name_of(op) +
                             "; convert the tensor, or use another reduction";
    throw nb::type_error(text.c_str());
}

// A peer, and Python's two sockets with it. They belong to Python until they are taken over here.
using Links = std::vector<std::tuple<int, nb::object, nb::object>>;

Socket take_over(const nb::object& socket) {
    return Socket(nb::cast<int>(socket.attr("detach")()));
}

// What Python holds. Closing lets go of the group at once; a call still running keeps it until it ends.
class Handle {
  public:
    Handle(std::shared_ptr<Endpoint> endpoint, const std::vector<std::string>& addresses, int rank,
           const std::vector<nb::bytes>& digests, const Handle* parent, double limit, double patience,
           const std::vector<int>& hosts, const Links& links) {
        GroupOptions options;
        for (const auto& [peer, control, data] : links) {
            Socket first = take_over(control);
            options.links.push_back({peer, std::move(first), take_over(data)});
        }
        std::vector<Address> parsed;
        for (std::size_t peer = 0; peer < addresses.size(); ++peer) {
            const bool remote = hosts.size() == addresses.size() && rank >= 0 &&
                                static_cast<std::size_t>(rank) < hosts.size() && hosts[peer] != hosts[rank];
            parsed.push_back(remote ? Address{} : Address::parse(addresses[peer]));
        }
        std::vector<Digest> checked;
        for (const nb::bytes& digest : digests) {
            if (digest.size() != digest_bytes) throw nb::value_error("a digest has 32 bytes");
            std::memcpy(checked.emplace_back().data(), digest.c_str(), digest_bytes);
        }
        options.hosts = hosts;
        options.limit = std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1000));
        options.patience = std::chrono::milliseconds(static_cast<std::int64_t>(patience * 1000));
        options.signals = run_signal_handlers;
        std::shared_ptr<Group> above = parent == nullptr ? nullptr : parent->group();
        nb::gil_scoped_release nogil;
        group_ =
            std::make_shared<Group>(std::move(endpoint), parsed, rank, checked, above, std::move(options));
    }
    ~Handle() { close(); }

    // Nothing when `then` is None: the work is done. Otherwise it will be, and `then(ticket)` is called.
    Outcome launch(const Signature& signature, Group::Collective collective, Then then) {
        std::shared_ptr<Group> group = live(signature.kind);
        if (!then) {
            nb::gil_scoped_release nogil;
            group->run(signature, collective);
            return std::nullopt;
        }
        auto ticket = std::make_shared<Ticket>(signature.kind);
        auto callback = std::make_shared<Callback>(std::move(*then));
        nb::gil_scoped_release nogil;
        if (group->submit(signature, std::move(collective), {ticket, [=] { (*callback)(ticket); }}))
            (*callback)(ticket);
        return ticket;
    }

    Outcome all_reduce(Pointer data, std::size_t count, DType type, Op op, Then then) {
        require_fold(type, op);
        const Signature signature{.kind = Kind::all_reduce, .op = op, .type = type, .count = count};
        auto work = [=](World& world) { nbdist::all_reduce(world, memory(data), count, type, op); };
        return launch(signature, work, std::move(then));
    }

    Outcome all_reduce_arena(std::shared_ptr<Window> window, std::size_t offset, std::size_t count,
                             DType type, Op op, std::vector<int> among, Then then) {
        require_fold(type, op, fold_everywhere_for);
        const Stretch stretch{offset, count, type};
        check_stretch(window.get(), stretch, among, *live(Kind::all_reduce));
        auto work = [=](World& world) { nbdist::all_reduce(world, window.get(), stretch, op, among); };
        return launch(signature_of(stretch, op), work, std::move(then));
    }

    Outcome reduce(Pointer data, std::size_t count, DType type, Op op, int root, Then then) {
        require_fold(type, op);
        check_rank(root);
        const Signature signature{.kind = Kind::reduce, .op = op, .type = type, .root = root, .count = count};
        auto work = [=](World& world) { nbdist::reduce(world, memory(data), count, type, op, root); };
        return launch(signature, work, std::move(then));
    }

    Outcome broadcast(Pointer data, std::size_t count, DType type, int root, Then then) {
        check_rank(root);
        const Signature signature{.kind = Kind::broadcast, .type = type, .root = root, .count = count};
        auto work = [=](World& world) { nbdist::broadcast(world, memory(data), count, type, root); };
        return launch(signature, work, std::move(then));
    }

    Outcome all_gather(Pointer in, const std::vector<Pointer>& out, std::size_t count, DType type,
                       Then then) {
        check_one_each(out);
        const Signature signature{.kind = Kind::all_gather, .type = type, .count = count};
        auto work = [=](World& world) {
            std::vector<void*> places;
            for (Pointer address : out) places.push_back(memory(address));
            nbdist::all_gather(world, memory(in), places.data(), count, type);
        };
        return launch(signature, work, std::move(then));
    }

    Outcome reduce_scatter(const std::vector<Pointer>& in, Pointer out, std::size_t count, DType type, Op op,
                           Then then) {
        require_fold(type, op);
        check_one_each(in);
        const Signature signature{.kind = Kind::reduce_scatter, .op = op, .type = type, .count = count};
        auto work = [=](World& world) {
            std::vector<const void*> inputs;
            for (Pointer address : in) inputs.push_back(memory(address));
            nbdist::reduce_scatter(world, inputs.data(), memory(out), count, type, op);
        };
        return launch(signature, work, std::move(then));
    }

    Outcome barrier(Then then) {
        return launch({.kind = Kind::barrier}, [](World& world) { nbdist::barrier(world); }, std::move(then));
    }

    using Parcels = std::vector<std::tuple<int, Pointer, std::size_t>>;

    Outcome exchange(Kind kind, int root, std::size_t count, DType type, const Parcels& sends,
                     const Parcels& receives, Then then) {
        std::shared_ptr<Group> group = live(kind);
        auto parcels = [this](const Parcels& from) {
            std::vector<Parcel> made;
            for (const auto& [peer, address, bytes] : from) {
                check_rank(peer);
                made.push_back({peer, static_cast<std::byte*>(memory(address)), bytes});
            }
            return made;
        };
        const Signature signature{.kind = kind, .type = type, .root = root, .count = count};
        auto work = [mail = &group->mail(), signature, sends = parcels(sends), receives = parcels(receives)](
                        World& world) { nbdist::exchange(world, *mail, signature, sends, receives); };
        return launch(signature, work, std::move(then));
    }

    Outcome send(int to, std::int64_t tag, Pointer data, std::size_t bytes, DType type, Then then) {
        check_rank(to);
        return deliver({Kind::send, to}, std::move(then),
                       [=](Mail& mail) { return mail.post_send(to, {tag, bytes, type}, memory(data)); });
    }

    Outcome recv(int from, std::int64_t tag, Pointer data, std::size_t bytes, DType type, Then then) {
        if (from != any_source) check_rank(from);
        return deliver({Kind::recv, from}, std::move(then),
                       [=](Mail& mail) { return mail.post_recv(from, {tag, bytes, type}, memory(data)); });
    }

    void wait(const TicketRef& ticket) {
        std::shared_ptr<Group> group = this->group();
        nb::gil_scoped_release nogil;
        if (group == nullptr) return ticket->rethrow();  // closing has ended all work
        Steps::Caller caller(group->steps(), ticket->kind());
        ticket->wait(group->vigil());
    }

    void abort(const std::string& reason) {
        if (std::shared_ptr<Group> group = this->group()) group->abort(reason);
    }
    bool is_open() const { return group_ != nullptr; }
    bool is_aborted() const { return group() != nullptr && group()->vigil().aborted(); }
    bool spans_hosts() const { return live(Kind::barrier)->spans_hosts(); }
    void enter_cell(std::int64_t number) { live(Kind::barrier)->enter_cell(number); }
    void end_lines() { live(Kind::barrier)->end_lines(); }
    void skip_cell(std::int64_t number) { live(Kind::barrier)->vigil().skip_cell(number); }
    std::optional<std::tuple<std::string, std::uint64_t, std::uint64_t>> step() const {
        std::shared_ptr<Group> group = this->group();
        std::optional<Step> step = group == nullptr ? std::nullopt : group->steps().current();
        if (!step) return std::nullopt;
        return std::tuple(std::string(name_of(step->kind)), step->number, step->bytes);
    }
    // The group, unless it has been left.
    std::shared_ptr<Group> group() const {
        if (generation_ != generation()) throw Forked();
        return group_;
    }
    void close() {
        std::shared_ptr<Group> group = std::move(group_);
        if (group == nullptr) return;
        if (generation_ != generation()) {
            // Leaked on purpose, with whatever its queues hold: its threads can't be joined, its locks may
            // be held by one of them, and its segments aren't there.
            new std::shared_ptr<Group>(std::move(group));
            nb::set_leak_warnings(false);
            return;
        }
        nb::gil_scoped_release nogil;
        group->close();
        group.reset();
    }

  private:
    std::shared_ptr<Group> live(Kind kind) const {
        if (group() == nullptr)
            throw Aborted(
                std::string(name_of(kind)) +
                    " needs a group, but this rank has left it; run the next cell or form a new group",
                -1, name_of(kind));
        return group_;
    }
    void check_rank(int rank) const {
        const int size = live(Kind::barrier)->size();
        if (rank < 0 || rank >= size)
            throw nb::value_error(("rank " + std::to_string(rank) + " is not in a world of " +
                                   std::to_string(size) + "; name one from 0 to " + std::to_string(size - 1))
                                      .c_str());
    }
    void check_one_each(const std::vector<Pointer>& pointers) const {
        const std::size_t size = live(Kind::barrier)->size();
        if (pointers.size() != size)
            throw nb::value_error(
                ("give one tensor for each of the " + std::to_string(size) + " ranks").c_str());
    }
    template <class Post>
    Outcome deliver(Waiting waiting, Then then, Post post) {
        std::shared_ptr<Group> group = live(waiting.kind);
        group->vigil().check(waiting.kind);
        const bool now = !then;
        TicketRef ticket = post(group->mail());
        if (now) {
            nb::gil_scoped_release nogil;
            Steps::Caller caller(group->steps(), waiting.kind);
            group->mail().wait(ticket, waiting);
        } else {
            auto callback = std::make_shared<Callback>(std::move(*then));
            nb::gil_scoped_release nogil;
            group->mail().entrust({ticket, [=] { (*callback)(ticket); }}, waiting);
        }
        return ticket;
    }

    std::shared_ptr<Group> group_;
    int generation_ = generation();
};

void leave_cell_in(const std::vector<const Handle*>& handles, std::int64_t number) {
    std::vector<std::shared_ptr<Group>> groups;
    for (const Handle* handle : handles)
        if (std::shared_ptr<Group> group = handle->group()) groups.push_back(std::move(group));
    nb::gil_scoped_release nogil;
    leave_cell(groups, number);
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Collectives: over shared memory within a host, over sockets between hosts.";
    bind_errors();

    nb::enum_<DType> dtype(m, "DType", "Element types.");
    for (int i = 0; i < dtype_count; ++i) dtype.value(name_of(static_cast<DType>(i)), static_cast<DType>(i));
    nb::enum_<Op> op(m, "Op", "Reductions.");
    for (int i = 0; i < op_count; ++i) op.value(name_of(static_cast<Op>(i)), static_cast<Op>(i));
    nb::enum_<Kind>(m, "Kind", "Collectives made of an exchange.")
        .value("all_gather", Kind::all_gather)
        .value("gather", Kind::gather)
        .value("scatter", Kind::scatter)
        .value("all_to_all", Kind::all_to_all);

    m.def("bytes_moved", &bytes_moved, "Count the payload bytes this process has sent to other ranks.");
    m.attr("ANY_SOURCE") = any_source;

    nb::class_<Endpoint>(m, "Endpoint", "This rank's segment of shared memory.")
        .def(nb::init<>())
        .def_prop_ro("address", [](const Endpoint& self) { return self.address().text(); })
        .def("abort", &Endpoint::abort, "reason"_a, "End the group that is formed from it, now or later.")
        .def("close", &Endpoint::close, "Tell who waits for this rank to form a group that it won't.");

    nb::class_<Ticket>(m, "Ticket", "Work another thread does.")
        .def_prop_ro("done", &Ticket::done)
        .def_prop_ro("source", [](const Ticket& self) { return self.source; })
        .def("rethrow", &Ticket::rethrow, "Raise the error the work ended with, if any.");

    bind_arena(m);

    const auto then = "then"_a = nb::none();
    nb::class_<Handle>(m, "Group", nb::is_weak_referenceable(), "Ranks that communicate.")
        .def(nb::init<std::shared_ptr<Endpoint>, const std::vector<std::string>&, int,
                      const std::vector<nb::bytes>&, const Handle*, double, double, const std::vector<int>&,
                      const Links&>(),
             "endpoint"_a, "addresses"_a, "rank"_a, "digests"_a, "parent"_a.none() = nb::none(),
             "limit"_a = 0.0, "patience"_a = 0.0, "hosts"_a = std::vector<int>(), "links"_a = Links())
        .def("all_reduce", &Handle::all_reduce, "data"_a, "count"_a, "dtype"_a, "op"_a, then)
        .def("all_reduce_arena", &Handle::all_reduce_arena, "window"_a.none(), "offset"_a, "count"_a,
             "dtype"_a, "op"_a, "among"_a, then)
        .def("reduce", &Handle::reduce, "data"_a, "count"_a, "dtype"_a, "op"_a, "root"_a, then)
        .def("broadcast", &Handle::broadcast, "data"_a, "count"_a, "dtype"_a, "root"_a, then)
        .def("all_gather", &Handle::all_gather, "source"_a, "outputs"_a, "count"_a, "dtype"_a, then)
        .def("reduce_scatter", &Handle::reduce_scatter, "inputs"_a, "output"_a, "count"_a, "dtype"_a, "op"_a,
             then)
        .def("barrier", &Handle::barrier, then)
        .def("exchange", &Handle::exchange, "kind"_a, "root"_a, "count"_a, "dtype"_a, "sends"_a, "receives"_a,
             then)
        .def("send", &Handle::send, "to"_a, "tag"_a, "data"_a, "length"_a, "dtype"_a, then)
        .def("recv", &Handle::recv, "source"_a, "tag"_a, "data"_a, "length"_a, "dtype"_a, then)
        .def("wait", &Handle::wait, "ticket"_a)
        .def("abort", &Handle::abort, "reason"_a)
        .def_prop_ro("is_open", &Handle::is_open)
        .def("is_aborted", &Handle::is_aborted)
        .def("spans_hosts", &Handle::spans_hosts)
        .def("enter_cell", &Handle::enter_cell, "number"_a)
        .def("end_lines", &Handle::end_lines)
        .def("skip_cell", &Handle::skip_cell, "number"_a)
        .def("step", &Handle::step, "Name what a caller waits in, its number and its bytes.")
        .def("close", &Handle::close);

    m.def("leave_cell", &leave_cell_in, "groups"_a, "number"_a,
          "Leave a cell in these groups once what was issued in it is done.");
    m.def("finish_announcing", &Announcer::finish, nb::call_guard<nb::gil_scoped_release>(),
          "Wait until nobody tells Python of work any more.");
}

}  // namespace nbdist
