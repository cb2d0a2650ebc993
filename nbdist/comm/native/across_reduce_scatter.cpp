#include "collectives.h"
#include "fold.h"
#include "lanes.h"

namespace nbdist {

namespace {

// Each host reduces its own inputs for every other, and a lane's ranks fold what they get of one another.
void along_lanes(const Lanes& lanes, const void* const* in, void* out, std::size_t count, DType type, Op op) {
    const std::size_t bytes = count * size_of(type);
    const int hosts = lanes.hosts();
    std::vector<std::byte> sent(lanes.world().size() > 1 ? hosts * bytes : 0), come(hosts * bytes);
    Errands errands = lanes.errands();
    for (int host = 0; host < hosts; ++host)
        if (host != lanes.host()) errands.receive(lanes.speaker_of(host), come.data() + host * bytes, bytes);
    for (int step = 1; step <= hosts; ++step) {
        const int host = (lanes.host() + step) % hosts;
        std::vector<const void*> inputs;
        for (int peer : lanes.ranks_of(host)) inputs.push_back(in[peer]);
        const void* partial = inputs[0];
        if (host == lanes.host() || lanes.world().size() > 1) {
            std::byte* place = host == lanes.host() ? come.data() + host * bytes : sent.data() + host * bytes;
            in_host::reduce_scatter(lanes.world(), inputs.data(), place, count, type, op);
            partial = place;
        }
        if (host != lanes.host()) errands.send(lanes.speaker_of(host), partial, bytes);
    }
    errands.await_all();
    std::vector<const void*> inputs;
    for (int host = 0; host < hosts; ++host) inputs.push_back(come.data() + host * bytes);
    fold_for(type, op)(out, inputs.data(), hosts, count);
}

// Every rank sends every other its input.
void directly(const Lanes& lanes, const void* const* in, void* out, std::size_t count, DType type, Op op) {
    const std::size_t bytes = count * size_of(type);
    std::vector<std::byte> come(lanes.size() * bytes);
    std::vector<const void*> inputs(lanes.size());
    Errands errands = lanes.errands();
    for (int step = 0; step < lanes.size(); ++step) {
        const int peer = (lanes.rank() + step) % lanes.size();
        inputs[peer] = peer == lanes.rank() ? in[peer] : come.data() + peer * bytes;
        if (peer == lanes.rank()) continue;
        errands.receive(peer, come.data() + peer * bytes, bytes);
        errands.send(peer, in[peer], bytes);
    }
    errands.await_all();
    fold_for(type, op)(out, inputs.data(), lanes.size(), count);
}

}  // namespace

void across::reduce_scatter(Lanes& lanes, const void* const* in, void* out, std::size_t count, DType type,
                            Op op) {
    agree(lanes.world(), {.kind = Kind::reduce_scatter, .op = op, .type = type, .count = count});
    (lanes.even() ? along_lanes : directly)(lanes, in, out, count, type, op);
}

}  // namespace nbdist
