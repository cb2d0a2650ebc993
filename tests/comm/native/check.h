// What a test program needs: TEST names a test, CHECK throws where something does not hold.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace nbdist::test {

struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    throw Failed(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

// Adds a test to the program; it runs when main() does.
struct Test {
    Test(const char* name, std::function<void()> body);
};

}  // namespace nbdist::test

#define TEST(name)                                                  \
    static void name();                                             \
    static const nbdist::test::Test name##_is_a_test(#name, &name); \
    static void name()

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) nbdist::test::fail(__FILE__, __LINE__, #condition); \
    } while (false)

#define CHECK_EQUAL(left, right)                                                            \
    do {                                                                                    \
        if (const auto value = (left); value != (right))                                    \
            nbdist::test::fail(__FILE__, __LINE__,                                          \
                               #left " == " #right ", but it is " + std::to_string(value)); \
    } while (false)

// The call must throw this type, with `part` in its message.
#define CHECK_THROWS(Type, call, part)                                                 \
    do {                                                                               \
        std::string message;                                                           \
        try {                                                                          \
            call;                                                                      \
        } catch (const Type& error) {                                                  \
            message = error.what();                                                    \
        }                                                                              \
        if (message.find(part) == std::string::npos || message.empty())                \
            nbdist::test::fail(__FILE__, __LINE__, #call " threw: '" + message + "'"); \
    } while (false)
