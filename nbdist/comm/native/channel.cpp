#include "channel.h"

#include <algorithm>
#include <cstring>

#include "copy.h"

namespace nbdist {

bool Pieces::send(const Envelope& envelope, const std::byte* data, std::uint64_t& done, bool) {
    MailCursor& cursor = members_.cursor(members_.rank(), peer_);
    do {  // an empty message is a piece, too
        const std::uint64_t sent = cursor.sent.load(std::memory_order_relaxed);
        if (sent - cursor.taken.load(std::memory_order_acquire) == mail_count) return false;
        const std::uint64_t length = std::min<std::uint64_t>(mail_payload, envelope.total - done);
        std::byte* piece = members_.mail(members_.rank(), peer_, sent);
        *reinterpret_cast<MailHeader*>(piece) = {envelope, length};
        copy_to_slot(piece + sizeof(MailHeader), data + done, length, true);
        cursor.sent.store(sent + 1, std::memory_order_release);
        members_.control(peer_).mail_bell.ring();
        done += length;
    } while (done < envelope.total);
    return true;
}

const Envelope* Pieces::head() {
    MailCursor& cursor = members_.cursor(peer_, members_.rank());
    const std::uint64_t taken = cursor.taken.load(std::memory_order_relaxed);
    if (cursor.sent.load(std::memory_order_acquire) == taken) return nullptr;
    return &reinterpret_cast<const MailHeader*>(members_.mail(peer_, members_.rank(), taken))->envelope;
}

bool Pieces::receive(std::byte* place, std::uint64_t total, std::uint64_t& done) {
    MailCursor& cursor = members_.cursor(peer_, members_.rank());
    while (head() != nullptr) {
        const std::uint64_t taken = cursor.taken.load(std::memory_order_relaxed);
        const std::byte* piece = members_.mail(peer_, members_.rank(), taken);
        // Whatever a peer's memory says, it must not overrun ours.
        const std::uint64_t told = reinterpret_cast<const MailHeader*>(piece)->bytes;
        const std::uint64_t bytes = std::min<std::uint64_t>({told, mail_payload, total - done});
        if (bytes > 0) std::memcpy(place + done, piece + sizeof(MailHeader), bytes);
        done += bytes;
        cursor.taken.store(taken + 1, std::memory_order_release);
        members_.control(peer_).mail_bell.ring();
        if (done == total) return true;
    }
    return false;
}

}  // namespace nbdist
