#include "errors_binding.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "errors.h"

namespace nb = nanobind;

namespace nbdist {

namespace {

template <class Error>
void raise_named(const char* name, const Error& error) {
    PyErr_SetString(nb::module_::import_("nbdist.errors").attr(name).ptr(), error.what());
}

void raise_aborted(const Aborted& error) {
    nb::object type = nb::module_::import_("nbdist.errors").attr("GroupAborted");
    nb::object rank = error.rank < 0 ? nb::none() : nb::cast(error.rank);
    PyErr_SetObject(type.ptr(), type(error.what(), rank, error.operation).ptr());
}

void translate(const std::exception_ptr& pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const Aborted& error) {
        raise_aborted(error);
    } catch (const Mismatch& error) {
        raise_named("MismatchError", error);
    } catch (const Forked& error) {
        raise_named("GroupError", error);
    }
}

}  // namespace

void bind_errors() {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            translate(pointer);
        } catch (nb::python_error& error) {
            error.restore();  // an interrupt, say, while the error was being made
        }
    });
}

}  // namespace nbdist
