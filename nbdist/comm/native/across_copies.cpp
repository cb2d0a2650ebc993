// Barrier, broadcast and all-gather between hosts.
#include <algorithm>
#include <cstring>
#include <deque>

#include "collectives.h"
#include "lanes.h"

namespace nbdist {

void across::barrier(Lanes& lanes) {
    agree(lanes.world(), {.kind = Kind::barrier});
}

// A chain from the root's host to the next, and to the next; a rank of each passes chunk after chunk on, and
// to the others of its host.
void across::broadcast(Lanes& lanes, void* data, std::size_t count, DType type, int root) {
    constexpr std::size_t chunk = 512 * 1024, ahead = 4;
    World& world = lanes.world();
    agree(world, {.kind = Kind::broadcast, .type = type, .root = root, .count = count});
    const int first = lanes.host_of(root), place = lanes.place_of(root);
    const int step = (lanes.host() - first + lanes.hosts()) % lanes.hosts();
    auto speaker = [&](int step) {
        const auto& ranks = lanes.ranks_of((first + step) % lanes.hosts());
        return ranks[place % ranks.size()];
    };
    const bool speaks = speaker(step) == lanes.rank();
    const std::size_t total = count * size_of(type);
    std::byte* bytes = static_cast<std::byte*>(data);
    std::deque<std::shared_ptr<Ticket>> expected;
    Errands errands = lanes.errands();
    std::size_t asked = 0;
    for (std::size_t begin = 0; begin < total; begin += chunk) {
        const std::size_t length = std::min(chunk, total - begin);
        if (speaks && step > 0) {
            for (; asked < total && expected.size() < ahead; asked += chunk)
                expected.push_back(
                    errands.receive(speaker(step - 1), bytes + asked, std::min(chunk, total - asked)));
            errands.await(speaker(step - 1), expected.front());
            expected.pop_front();
        }
        if (speaks && step + 1 < lanes.hosts()) errands.send(speaker(step + 1), bytes + begin, length);
        in_host::broadcast(world, bytes + begin, length, DType::bytes, lanes.place_of(speaker(step)));
    }
    errands.await_all();
}

// Where hosts have as many ranks, what one has comes once to every other host, along its lane, and is handed
// round there. Else every rank sends to every rank of other hosts.
void across::all_gather(Lanes& lanes, const void* in, void* const* out, std::size_t count, DType type) {
    World& world = lanes.world();
    agree(world, {.kind = Kind::all_gather, .type = type, .count = count});
    const std::size_t total = count * size_of(type);
    if (total > 0) std::memmove(out[lanes.rank()], in, total);
    auto spread = [&](int host) {
        std::vector<void*> places;
        for (int peer : lanes.ranks_of(host)) places.push_back(out[peer]);
        in_host::all_gather(world, places[lanes.place()], places.data(), count, type);
    };
    const int hosts = lanes.hosts();
    Errands errands = lanes.errands();
    if (lanes.even()) {
        std::vector<std::shared_ptr<Ticket>> expected(hosts);
        for (int step = 1; step < hosts; ++step) {
            const int from = (lanes.host() + hosts - step) % hosts, to = (lanes.host() + step) % hosts;
            expected[from] = errands.receive(lanes.speaker_of(from), out[lanes.speaker_of(from)], total);
            errands.send(lanes.speaker_of(to), out[lanes.rank()], total);
        }
        spread(lanes.host());
        for (int step = 1; step < hosts; ++step) {
            const int from = (lanes.host() + hosts - step) % hosts;
            errands.await(lanes.speaker_of(from), expected[from]);
            if (world.size() > 1) spread(from);
        }
    } else {
        for (int step = 1; step < lanes.size(); ++step) {
            const int peer = (lanes.rank() + step) % lanes.size();
            if (lanes.host_of(peer) == lanes.host()) continue;
            errands.receive(peer, out[peer], total);
            errands.send(peer, out[lanes.rank()], total);
        }
        spread(lanes.host());
    }
    errands.await_all();
}

}  // namespace nbdist
