#include "arena_binding.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace nb = nanobind;
using namespace nb::literals;

namespace nbdist {

namespace {

int show(PyObject* self, Py_buffer* view, int flags) {
    // Tensors hold what they lie on, and a model may well live until the process ends: that is no leak.
    nb::set_leak_warnings(false);
    const Arena& arena = *nb::inst_ptr<Arena>(self);
    return PyBuffer_FillInfo(view, self, arena.data(), static_cast<Py_ssize_t>(arena.bytes()), 0, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(show)}, {0, nullptr}};

std::shared_ptr<Window> open_window(std::shared_ptr<Arena> own, const std::vector<std::string>& addresses,
                                    int rank) {
    std::vector<Address> parsed;
    for (const std::string& text : addresses) parsed.push_back(Address::parse(text));
    if (rank < 0 || rank >= static_cast<int>(parsed.size()) || parsed[rank].nonce != own->address().nonce)
        throw nb::value_error("an arena's own address is the one at the place of its rank");
    nb::gil_scoped_release nogil;
    return std::make_shared<Window>(std::move(own), parsed, rank);
}

}  // namespace

void bind_arena(nb::module_& m) {
    nb::class_<Arena>(m, "Arena", "Memory of this rank that the others of its host write into; a buffer.",
                      nb::type_slots(slots))
        .def(nb::init<std::size_t>(), "length"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("address", [](const Arena& self) { return self.address().text(); });
    nb::class_<Window>(m, "Window", "The arenas of all ranks of a group.")
        .def(nb::new_(&open_window), "arena"_a, "addresses"_a, "rank"_a);
}

void check_stretch(const Window* window, const Stretch& stretch, const std::vector<int>& among,
                   const Group& group) {
    if (group.spans_hosts())
        throw nb::value_error(
            "a group that spans hosts has no memory in common to reduce in; use all_reduce");
    if (std::find(among.begin(), among.end(), group.rank()) == among.end()) return;
    if (window == nullptr) throw nb::value_error("a rank whose arena takes part needs a window");
    const int size = static_cast<int>(window->size());
    if (std::any_of(among.begin(), among.end(), [=](int peer) { return peer < 0 || peer >= size; }))
        throw nb::value_error("a window shows as many arenas as there are ranks");
    if (stretch.offset % 64 != 0 || stretch.offset > window->bytes() ||
        stretch.count > (window->bytes() - stretch.offset) / size_of(stretch.type))
        throw nb::value_error("a stretch begins at a multiple of 64 bytes and ends inside the arena");
}

}  // namespace nbdist
