// See held_floats.h.
#include "held_floats.h"

#include "half.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace scoria {
namespace {

struct Form {
    uint32_t bytes;
    uint32_t (*write)(float value);  // what is not held becomes any other
    float (*read)(uint32_t bits);
};
constexpr Form forms[] = {
    {1, [](float value) { return value >= 0 && value <= 255 ? uint32_t(value) : 0; },
     [](uint32_t bits) { return float(bits); }},
    {2, [](float value) { return uint32_t{to_half(value)}; },
     [](uint32_t bits) { return from_half(uint16_t(bits)); }},
    {2, [](float value) { return uint32_t{to_bf16(value)}; },
     [](uint32_t bits) { return from_bf16(uint16_t(bits)); }},
    {4, [](float value) { return std::bit_cast<uint32_t>(value); },
     [](uint32_t bits) { return std::bit_cast<float>(bits); }},
};

}  // namespace

HeldFloats::HeldFloats(const std::vector<float>& values) {
    const auto holds = [&](const Form& form) {
        return std::ranges::all_of(values, [&](float value) {
            return std::bit_cast<uint32_t>(form.read(form.write(value))) == std::bit_cast<uint32_t>(value);
        });
    };
    while (!holds(forms[form_])) ++form_;  // the last one holds any
    const uint32_t each = forms[form_].bytes;
    bytes_.resize(values.size() * each);
    for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t bits = forms[form_].write(values[i]);
        std::memcpy(&bytes_[i * each], &bits, each);
    }
}

float HeldFloats::operator[](size_t i) const {
    const Form& form = forms[form_];
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes_[i * form.bytes], form.bytes);
    return form.read(bits);
}

}  // namespace scoria
