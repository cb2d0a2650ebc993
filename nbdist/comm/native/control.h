// What a rank's segment holds, byte for byte. Every process of a group maps it, so it has no pointers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "bell.h"
#include "dtype.h"

namespace nbdist {

constexpr std::size_t slot_bytes = 256 * 1024;
constexpr std::size_t slot_count = 4;
constexpr std::size_t mail_bytes = 64 * 1024;
constexpr std::size_t mail_count = 2;
constexpr std::size_t digest_bytes = 32;
constexpr std::size_t reason_bytes = 480;

enum class Kind : std::uint8_t {
    form,
    barrier,
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    gather,
    scatter,
    all_to_all,
    send,
    recv,
};

inline const char* name_of(Kind kind) {
    constexpr const char* names[] = {
        "init_process_group", "barrier", "all_reduce", "reduce",     "broadcast", "all_gather",
        "reduce_scatter",     "gather",  "scatter",    "all_to_all", "send",      "recv"};
    return names[static_cast<int>(kind)];
}

// What a rank is about to do; ranks compare theirs before a byte of the user's moves.
struct Signature {
    Kind kind = Kind::form;
    Op op = Op::none;
    DType type = DType::bytes;
    std::uint8_t ending = 0;  // of a rank that has run its cell's lines; serves the message, and may differ
    std::int32_t root = -1;
    std::uint64_t count = 0;

    bool operator==(const Signature& other) const {
        return kind == other.kind && op == other.op && type == other.type && root == other.root &&
               count == other.count;
    }
};
static_assert(sizeof(Signature) == 16);

// How far a rank has come; only it writes them, and none ever falls. One cache line: a peer that looks
// at one of them has the rest for nothing.
struct alignas(64) Progress {
    std::atomic<std::uint64_t> opened;       // operations begun, their signature written
    std::atomic<std::uint64_t> contributed;  // blocks whose input lies in the slot
    std::atomic<std::uint64_t> published;    // blocks whose result lies in the slot
    std::atomic<std::uint64_t> finished;     // blocks of which nothing is read any more
    Signature signatures[2];                 // by operation; no rank can be two ahead of another
};
static_assert(sizeof(Progress) == 64);

// Why the group ended. On each host the one in its lowest rank's segment counts, so the first reason wins.
struct alignas(64) Obituary {
    static constexpr std::uint32_t alive = 0, claimed = 1, written = 2;
    std::atomic<std::uint32_t> state;
    std::int32_t rank;
    std::uint32_t mismatch;
    char reason[reason_bytes];
};

// How a rank of another host can be lost; 0 while it is not.
enum class Loss : std::uint32_t { none, died, silent, broken };

// The cell that a rank leaves when it leaves the group; none comes after it.
constexpr std::int64_t for_good = std::numeric_limits<std::int64_t>::max();

// The place of a rank in the notebook's cells, and whether it has left the group. Cells are numbered, and
// each of these is the last one of which it is true.
struct alignas(64) Presence {
    std::atomic<std::int64_t> entered;
    std::atomic<std::int64_t> leaving;  // it issues nothing more; what it has issued is still to be done
    std::atomic<std::int64_t> left;     // its collectives are done, and it receives nothing more
    std::atomic<std::int64_t> skipped;  // it was never to run that cell
    std::atomic<std::uint64_t> issued;  // collectives called so far, queued ones included
    std::atomic<std::uint32_t> closed;
    std::atomic<std::uint32_t> ready;  // set last while forming: the segment has its full size
    std::atomic<std::uint32_t> lost;   // why a rank of another host is not to be reached; only in mirrors
};

struct alignas(4096) Control {
    char magic[8];
    std::uint32_t version;
    std::uint32_t unused;
    std::uint8_t nonce[16];
    std::uint8_t digest[digest_bytes];
    Progress progress;
    Bell progress_bell;  // rings when progress, presence or the obituary changed
    Bell mail_bell;      // rings when somebody has sent to, or taken from, this rank
    Presence presence;
    Obituary obituary;
};
static_assert(sizeof(Control) == 4096);

// One direction between two ranks, in the sender's segment.
struct MailCursor {
    alignas(64) std::atomic<std::uint64_t> sent;   // pieces; the sender writes it
    std::atomic<std::uint64_t> posted;             // whole messages, those not yet sent included
    alignas(64) std::atomic<std::uint64_t> taken;  // pieces; the receiver writes it
};

struct Envelope {
    std::int64_t tag = 0;
    std::uint64_t total = 0;  // bytes of the whole message
    DType type = DType::bytes;
    std::uint8_t unused[7] = {};
};

struct alignas(64) MailHeader {
    Envelope envelope;
    std::uint64_t bytes;  // of this piece
};
constexpr std::size_t mail_payload = mail_bytes - sizeof(MailHeader);

// Where the parts of a segment begin, for a group of `size` ranks. Pages never touched cost nothing.
struct Layout {
    explicit Layout(int size) {
        auto page = [](std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
        cursors = sizeof(Control);
        slots = cursors + page(size * sizeof(MailCursor));
        mail = slots + slot_count * slot_bytes;
        total = mail + static_cast<std::size_t>(size) * mail_count * mail_bytes;
    }
    std::size_t cursors, slots, mail, total;  // `slots` is where a mirror ends
};

}  // namespace nbdist
