// Which slot holds the states of which length of a sequence.
#include "states.h"

#include "fail.h"

#include <doctest/doctest.h>

using namespace scoria;

namespace state_slots {
namespace {

void go_on(StateSlots& slots, uint32_t first, uint32_t count) {
    if (const auto copy = slots.to_go_on(first)) slots.copied(*copy);
    slots.advance(first, count);
}
uint32_t read_by(const StateSlots& slots, uint32_t position) {
    return (position + slots.shift(position)) % STATE_SLOTS;
}

}  // namespace

TEST_CASE("the last batches' states stand, and each batch reads those of the one before") {
    StateSlots slots;
    uint32_t written = 0, length = 0;
    for (const uint32_t count : {5u, 1u, 1u, 7u, 1u, 2u}) {
        slots.advance(length, count);
        if (length != 0) CHECK(read_by(slots, length) == written);
        written = (read_by(slots, length) + 1) % STATE_SLOTS;
        length += count;
        CHECK(slots.holds(length));
    }
    CHECK(slots.holds(15));
    CHECK(slots.holds(14));
    CHECK(!slots.holds(13));
    // A batch computed again writes where it wrote; what follows is of other tokens then.
    slots.advance(14, 1);
    CHECK(!slots.holds(17));
    CHECK((read_by(slots, 14) + 1) % STATE_SLOTS == read_by(slots, 15));
    slots.forget();
    CHECK(!slots.holds(14));
    CHECK(slots.holds(0));
}

TEST_CASE("what is kept stands until what it is of is another, or two longer ones are kept") {
    StateSlots slots;
    const auto keep = [&] {
        const StateSlots::Copy copy = slots.to_keep(false);
        CHECK(copy.to >= STATE_SLOTS);
        slots.copied(copy);
    };
    go_on(slots, 0, 10);
    keep();
    for (uint32_t length = 10; length < 20; ++length) go_on(slots, length, 1);
    keep();
    for (uint32_t length = 20; length < 30; ++length) go_on(slots, length, 1);
    CHECK(slots.longest_kept(9) == 0);
    CHECK(slots.longest_kept(19) == 10);
    CHECK(slots.longest_kept(25) == 20);
    CHECK(slots.holds(10));
    CHECK(!slots.holds(11));
    keep();  // in the place of the shortest
    CHECK(slots.longest_kept(19) == 0);
    CHECK(slots.longest_kept(40) == 30);
    const auto copy = slots.to_go_on(20);
    REQUIRE(copy);
    CHECK(copy->from >= STATE_SLOTS);
    CHECK(copy->to < STATE_SLOTS);
    slots.copied(*copy);
    CHECK(read_by(slots, 20) == copy->to);
    slots.advance(20, 3);
    CHECK(slots.longest_kept(40) == 20);  // 30 were other tokens
    CHECK(slots.holds(23));
    CHECK(!slots.to_go_on(23));
    CHECK_THROWS_AS((void)slots.to_go_on(22), Error);
}

TEST_CASE("what sequences share is kept until they share something else, or its tokens are others") {
    StateSlots slots;
    const auto keep = [&](uint32_t first, uint32_t length, bool shared) {
        go_on(slots, first, length - first);
        slots.copied(slots.to_keep(shared));
    };
    keep(0, 10, true);
    for (uint32_t length = 10; length < 40; length += 10) keep(length, length + 10, false);
    CHECK(slots.longest_kept(39) == 10);
    CHECK(slots.longest_kept(40) == 40);
    keep(40, 50, true);
    CHECK(slots.longest_kept(39) == 0);
    CHECK(slots.longest_kept(49) == 40);
    keep(50, 60, false);
    CHECK(slots.longest_kept(59) == 50);
    keep(0, 20, false);  // what was shared is gone with its tokens
    keep(20, 30, false);
    CHECK(slots.longest_kept(29) == 20);
    keep(30, 40, false);
    CHECK(slots.longest_kept(29) == 0);
}

}  // namespace state_slots
