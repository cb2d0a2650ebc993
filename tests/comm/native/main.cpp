// Runs the tests of a program, or those named on its command line.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "check.h"

namespace nbdist::test {

namespace {

// A test that hangs ends the program, by SIGALRM; the line printed last names it.
constexpr unsigned patience = 300;

std::vector<std::pair<std::string, std::function<void()>>>& tests() {
    static std::vector<std::pair<std::string, std::function<void()>>> all;
    return all;
}

}  // namespace

Test::Test(const char* name, std::function<void()> body) {
    tests().emplace_back(name, std::move(body));
}

int run(const std::vector<std::string>& wanted) {
    int failures = 0;
    for (const auto& [name, body] : tests()) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
        std::printf("%s ", name.c_str());
        std::fflush(stdout);
        alarm(patience);
        const auto began = std::chrono::steady_clock::now();
        try {
            body();
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
            std::printf("ok (%.2f s)\n", took.count());
        } catch (const std::exception& error) {
            std::printf("FAILED\n  %s\n", error.what());
            ++failures;
        }
    }
    return failures;
}

}  // namespace nbdist::test

int main(int argc, char** argv) {
    return nbdist::test::run({argv + 1, argv + argc}) == 0 ? 0 : 1;
}
