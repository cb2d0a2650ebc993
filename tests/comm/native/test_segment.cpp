#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <stdexcept>

#include "check.h"
#include "segment.h"

using namespace nbdist;

namespace {

constexpr const char* good = "shm:12:34:56:00112233445566778899aabbccddeeff";

bool parses(const std::string& text) {
    try {
        const std::string again = Address::parse(text).text();
        CHECK(Address::parse(again).text() == again);
        return true;
    } catch (const std::invalid_argument& error) {
        CHECK(std::string(error.what()).find("is no endpoint; pass what open_endpoint() returned") !=
              std::string::npos);
        return false;
    }
}

}  // namespace

TEST(an_address_survives_its_text) {
    const Endpoint endpoint;
    const Address address = Address::parse(endpoint.address().text());
    CHECK_EQUAL(address.pid, getpid());
    CHECK_EQUAL(address.fd, endpoint.address().fd);
    CHECK_EQUAL(address.started, endpoint.address().started);
    CHECK(address.nonce == endpoint.address().nonce);
    CHECK(Address::parse(good).text() == good);
}

TEST(text_that_is_no_address_is_refused) {
    for (const std::string text :
         {"", ":", "::::", "shm", "shm:1:2:3", "tcp:12:34:56:00112233445566778899aabbccddeeff",
          "shm::34:56:00112233445566778899aabbccddeeff", "shm:12:34:56:0011",
          "shm:1x:34:56:00112233445566778899aabbccddeeff", "shm:12:34:-5:00112233445566778899aabbccddeeff",
          "shm: 12:34:56:00112233445566778899aabbccddeeff",
          "shm:99999999999999999999:34:56:00112233445566778899aabbccddeeff",
          "shm:12:34:56:0011223344556677889gaabbccddeeff", "shm:12:34:56:00112233445566778899aabbccddeeff:",
          "shm:12:34:99999999999999999999999:00112233445566778899aabbccddeeff"})
        CHECK(!parses(text));
}

TEST(garbage_is_refused_whatever_it_is) {
    // Fixed, so that what fails once fails again.
    std::mt19937 random(20240607);
    for (int round = 0; round < 200'000; ++round) {
        std::string text = good;
        for (unsigned change = random() % 4 + 1; change > 0; --change) {
            const std::size_t at = random() % (text.size() + 1);
            const char byte = static_cast<char>(random());
            switch (random() % 4) {
                case 0:
                    text.insert(at, 1, byte);
                    break;
                case 1:
                    if (at < text.size()) text.erase(at, random() % 5);
                    break;
                case 2:
                    if (at < text.size()) text[at] = byte;
                    break;
                default:
                    text.insert(at, text.substr(random() % text.size(), random() % 20));
            }
            if (text.empty()) text += ':';
        }
        parses(text);
    }
    for (int round = 0; round < 20'000; ++round) {
        std::string text(random() % 100, '\0');
        for (char& byte : text) byte = static_cast<char>(random());
        CHECK(!parses(text));
    }
}

TEST(a_peer_maps_the_same_memory) {
    const Endpoint endpoint;
    const Segment own = endpoint.map(2);
    const Segment peer = map_peer(endpoint.address(), 2);
    const Layout layout(2);
    std::memcpy(own.at(layout.total - 5), "there", 5);
    CHECK(std::memcmp(peer.at(layout.total - 5), "there", 5) == 0);
    CHECK(&peer.control().nonce != nullptr);
}

TEST(what_is_not_a_segment_is_not_mapped) {
    const Endpoint endpoint;
    Address address = endpoint.address();
    address.nonce[3] ^= 1;
    CHECK_THROWS(std::runtime_error, map_peer(address, 2), "has another file there");

    address = endpoint.address();
    address.fd = 1 << 20;
    CHECK_THROWS(std::runtime_error, map_peer(address, 2), "No such file");

    const Fd empty(memfd_create("empty", MFD_CLOEXEC));
    address.fd = empty.get();
    CHECK_THROWS(std::runtime_error, map_peer(address, 2), "has another file there");

    const Fd zeros(memfd_create("zeros", MFD_CLOEXEC));
    CHECK_EQUAL(ftruncate(zeros.get(), sizeof(Control)), 0);
    address.fd = zeros.get();
    CHECK_THROWS(std::runtime_error, map_peer(address, 2), "has another file there");
}

TEST(a_segment_is_nobody_elses) {
    const Endpoint endpoint;
    struct stat file{};
    CHECK_EQUAL(fstat(endpoint.address().fd, &file), 0);
    CHECK_EQUAL(file.st_nlink, 0u);
    CHECK_EQUAL(file.st_uid, geteuid());
}

TEST(parts_of_a_segment_do_not_overlap) {
    for (int size : {1, 2, 3, 64, 1000}) {
        const Layout layout(size);
        CHECK(layout.cursors >= sizeof(Control));
        CHECK(layout.slots >= layout.cursors + size * sizeof(MailCursor));
        CHECK(layout.mail >= layout.slots + slot_count * slot_bytes);
        CHECK_EQUAL(layout.total, layout.mail + size * mail_count * mail_bytes);
        CHECK_EQUAL(layout.slots % 4096, 0u);
    }
}
