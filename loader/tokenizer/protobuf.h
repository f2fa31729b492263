// The wire format of protocol buffers, read in place: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include "fail.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace scoria {

/// Walks the fields of one message. Nothing is allocated; every length is compared with the bytes that are
/// left.
class ProtobufReader {
  public:
    ProtobufReader(std::string_view message, std::string_view where) : rest_(message), where_(where) {}

    /// Moves to the next field; false at the end. Errors: bad_file.
    bool next() {
        if (rest_.empty()) return false;
        const uint64_t key = varint();
        field_ = static_cast<uint32_t>(key >> 3);
        wire_ = static_cast<uint32_t>(key & 7);
        switch (wire_) {
        case 0:
            value_ = varint();
            break;
        case 1:
            bytes_ = take(8);
            break;
        case 2:
            bytes_ = take(varint());
            break;
        case 5:
            bytes_ = take(4);
            break;
        default:
            fail(Status::bad_file, where_, "field ", field_, ": expected a known wire type, got ", wire_);
        }
        return true;
    }
    uint32_t field() const { return field_; }

    // The value of the field; errors: bad_file, for another wire type.
    uint64_t integer() const { return require(0), value_; }
    std::string_view bytes() const { return require(2), bytes_; }
    float number() const {
        require(5);
        float value;
        std::memcpy(&value, bytes_.data(), sizeof value);
        return value;
    }

  private:
    void require(uint32_t wire) const {
        if (wire_ != wire)
            fail(Status::bad_file, where_, "field ", field_, ": expected wire type ", wire, ", got ", wire_);
    }
    std::string_view take(uint64_t count) {
        if (count > rest_.size())
            fail(Status::bad_file, where_, "field ", field_, ": expected ", count, " bytes, got ",
                 rest_.size());
        const std::string_view taken = rest_.substr(0, static_cast<size_t>(count));
        rest_.remove_prefix(taken.size());
        return taken;
    }
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<uint8_t>(take(1)[0]);
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return value;
        }
        fail(Status::bad_file, where_, "expected a number of at most 10 bytes");
    }

    std::string_view rest_, where_, bytes_;
    uint64_t value_ = 0;
    uint32_t field_ = 0, wire_ = 0;
};

}  // namespace scoria
