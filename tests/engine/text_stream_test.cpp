// Stop texts: what is shown, what is held back, against a search in the whole text.
#include "text_stream.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <doctest/doctest.h>

#include <random>

using namespace scoria;

TEST_CASE("stop texts are found across pieces and held back only while they may come") {
    struct Row {
        std::vector<std::string> stops, pieces, shown;  // shown: per piece, then at the end
    };
    const Row rows[] = {
        {{}, {"ab", "c"}, {"ab", "c", ""}},
        {{"stop"}, {"a st", "op b", "c"}, {"a ", "", "", ""}},
        {{"stop"}, {"a st", "ep"}, {"a ", "step", ""}},
        {{"aab"}, {"aaa", "ab"}, {"a", "a", ""}},
        {{"\n\n"}, {"x\n", "y\n", "\n"}, {"x", "\ny", "", ""}},
        {{"abcd", "bc"}, {"ab", "cd"}, {"", "a", ""}},
        {{"é!"}, {"caf", "é", "?"}, {"caf", "", "é?", ""}},
        {{"end"}, {"the e", "n"}, {"the ", "", "en"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.pieces[0]);
        StopFinder finder(row.stops);
        std::vector<std::string> shown;
        for (const std::string& piece : row.pieces) shown.push_back(finder.push(piece));
        shown.push_back(finder.finish());
        CHECK(shown == row.shown);
    }
}

TEST_CASE("any text in any pieces is shown up to the first stop text that is whole") {
    std::mt19937 random(1);
    const char* letters[] = {"a", "b", "€", "é"};
    const auto text_of = [&](size_t length) {
        std::string text;
        for (size_t i = 0; i < length; ++i) text += letters[random() % 4];
        return text;
    };
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::string> stops;
        for (size_t i = random() % 3; i > 0; --i) stops.push_back(text_of(1 + random() % 5));
        StopFinder finder(stops);
        std::string text, shown;
        for (int pieces = 0; pieces < 6; ++pieces) {
            const std::string piece = text_of(random() % 5);
            text += piece;
            const std::string now = finder.push(piece);
            CHECK(utf8::is_valid(now));
            shown += now;
        }
        shown += finder.finish();
        size_t end = std::string::npos, begin = text.size();
        for (const std::string& stop : stops) {
            const size_t at = text.find(stop);
            if (at == std::string::npos || at + stop.size() > end) continue;
            begin = at + stop.size() == end ? std::min(begin, at) : at;
            end = at + stop.size();
        }
        CHECK(shown == text.substr(0, begin));
        CHECK(finder.stopped() == (end != std::string::npos));
        CHECK(finder.found() == (finder.stopped() ? text.substr(begin, end - begin) : ""));
    }
}

TEST_CASE("stop texts that are none are refused") {
    CHECK_THROWS_AS(StopFinder({""}), Error);
    CHECK_THROWS_AS(StopFinder({"\xFF"}), Error);
    CHECK_THROWS_AS(StopFinder({std::string(5000, 'x')}), Error);
    CHECK_THROWS_AS(StopFinder(std::vector<std::string>(65, "x")), Error);
}
