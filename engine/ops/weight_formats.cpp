// See weight_formats.h. A format says once how the words of a file block and those of a unit correspond; each
// correspondence runs both ways. Blocks are whole words but for a side of 1 or 2 bytes, first or last.
#include "weight_formats.h"

#include "weight_planes.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace scoria {
namespace {

enum class Way { pack, unpack };

template <Way way> void same(uint32_t* file, uint32_t* unit, uint32_t words) {
    if constexpr (way == Way::pack)
        std::copy_n(file, words, unit);
    else
        std::copy_n(unit, words, file);
}

/// Files hold 4 columns in the low nibbles of a word and 4 far ones in the high nibbles; units hold 8
/// neighbours. Two words make two, and doing it twice undoes it.
template <Way way> void nibbles(uint32_t* file, size_t f, uint32_t* unit, size_t u0, size_t u1) {
    uint32_t& a = way == Way::pack ? file[f] : unit[u0];
    uint32_t& b = way == Way::pack ? file[f + 1] : unit[u1];
    (way == Way::pack ? unit[u0] : file[f]) = (a & 0x0F0F0F0F) | (b & 0x0F0F0F0F) << 4;
    (way == Way::pack ? unit[u1] : file[f + 1]) = (a >> 4 & 0x0F0F0F0F) | (b & 0xF0F0F0F0);
}
/// A block of 32 with columns i and i + 16 in a byte.
template <Way way> void nibbles_of_32(uint32_t* file, uint32_t* unit) {
    nibbles<way>(file, 0, unit, 0, 2);
    nibbles<way>(file, 2, unit, 1, 3);
}
/// Two blocks of 32 with their columns i in a byte; the second block starts `apart` words after the first.
template <Way way> void nibbles_of_64(uint32_t* file, uint32_t* unit, size_t apart) {
    for (size_t chunk = 0; chunk < 4; ++chunk) nibbles<way>(file, 2 * chunk, unit, chunk, apart + chunk);
}

/// Exchanges the bits of b under `mask` with those of a that are `distance` higher.
constexpr void swap_bits(uint32_t& a, uint32_t& b, int distance, uint32_t mask) {
    const uint32_t moved = (a >> distance ^ b) & mask;
    a ^= moved << distance;
    b ^= moved;
}

/// 2-bit codes of 256 columns: bytes of a file hold columns i, i + 32, i + 64 and i + 96; a word of a unit
/// holds 16 neighbours, column i of four in byte i. A transposition of 4 x 4 codes in each byte.
template <Way way> void quarters(uint32_t* file, uint32_t* unit) {
    for (size_t half = 0; half < 2; ++half)
        for (size_t part = 0; part < 2; ++part) {
            uint32_t* const by_byte = file + 8 * half + 4 * part;
            uint32_t* const by_block =
                unit + 8 * half + part;  // of the first of four blocks, two words apart
            uint32_t w[4];
            for (size_t i = 0; i < 4; ++i) w[i] = way == Way::pack ? by_byte[i] : by_block[2 * i];
            swap_bits(w[0], w[1], 2, 0x33333333);  // within squares of 2 x 2
            swap_bits(w[2], w[3], 2, 0x33333333);
            swap_bits(w[0], w[2], 4, 0x0F0F0F0F);  // of squares
            swap_bits(w[1], w[3], 4, 0x0F0F0F0F);
            for (size_t i = 0; i < 4; ++i) (way == Way::pack ? by_block[2 * i] : by_byte[i]) = w[i];
        }
}
/// The same within a word of 16 columns in order; doing it twice undoes it.
constexpr uint32_t transpose_quarters(uint32_t word) {
    const auto swap = [&](uint32_t mask, int distance) {
        const uint32_t moved = (word >> distance ^ word) & mask;
        word ^= moved ^ moved << distance;
    };
    swap(0x00CC00CC, 6);
    swap(0x0000F0F0, 12);
    return word;
}

/// Single bits of 256 columns: bit b of byte i of a file is that of column i of block b; a unit has a word of
/// 32 columns in order for each block.
template <Way way> void single_bits(uint32_t* file, uint32_t* unit) {
    if constexpr (way == Way::pack) {
        for (uint32_t b = 0; b < 8; ++b) {
            unit[b] = 0;  // the multiplication gathers bits 0, 8, 16 and 24 at the top
            for (uint32_t w = 0; w < 8; ++w)
                unit[b] |= ((file[w] >> b & 0x01010101) * 0x10204080u >> 28) << (4 * w);
        }
    } else {
        for (uint32_t w = 0; w < 8; ++w) {
            file[w] = 0;  // and this one spreads them
            for (uint32_t b = 0; b < 8; ++b)
                file[w] |= ((unit[b] >> (4 * w) & 15) * 0x00204081u & 0x01010101) << b;
        }
    }
}

/// Nibbles that are floats, to where shaders/dequant_fp4.glsl wants their bits, and back.
constexpr void spread_floats(uint32_t& word) {
    word = (word & 0x80078007) | (word & 0x07700770) >> 1 | (word & 0x70007000) >> 2 |
           (word & 0x00080008) << 3 | (word & 0x00800080) << 7 | (word & 0x08000800) << 2;
}
constexpr void gather_floats(uint32_t& word) {
    word = (word & 0x80078007) | (word & 0x03B803B8) << 1 | (word & 0x1C001C00) << 2 |
           (word & 0x00400040) >> 3 | (word & 0x40004000) >> 7 | (word & 0x20002000) >> 2;
}
/// Four scales of E4M3, to where it wants these, and back. They have no sign; NaN becomes zero, which it
/// counts as.
constexpr uint32_t spread_scales(uint32_t word) {
    for (const int at : {0, 8, 16, 24})
        if ((word >> at & 0xFF) == 0x7F) word &= ~(0x7Fu << at);
    return (word & 0x7F) << 7 | (word & 0x7F00) << 15 | (word >> 16 & 0x7F) | (word >> 24 & 0x7F) << 16;
}
constexpr uint32_t gather_scales(uint32_t word) {
    return (word >> 7 & 0x7F) | (word >> 23 & 0x7F) << 8 | (word & 0x7F) << 16 | (word >> 16 & 0x7F) << 24;
}

/// A block of `Cols` columns: `Side` bytes, which come first or last, and `Words` words, kept as they are.
template <uint32_t Cols, uint32_t Words, uint32_t Side, bool SideLast = false> struct AsIs {
    static constexpr uint32_t cols = Cols, words = Words, side = Side;
    static constexpr size_t bytes = 4 * Words + Side;
    static constexpr size_t words_at = SideLast ? 0 : Side, side_at = SideLast ? 4 * Words : 0;
    template <Way way> static void move(uint32_t* file, uint32_t* unit) { same<way>(file, unit, Words); }
};

struct Q4_0 : AsIs<32, 4, 2> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) { nibbles_of_32<way>(file, unit); }
};
struct Mxfp4 : AsIs<32, 4, 1> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        if (way == Way::unpack) std::for_each_n(unit, 4, gather_floats);
        nibbles_of_32<way>(file, unit);
        if (way == Way::pack) std::for_each_n(unit, 4, spread_floats);
    }
};
/// `Head` words as they are, then blocks of 32.
template <uint32_t Cols, uint32_t Head, uint32_t Side> struct Nibbles : AsIs<Cols, Head + Cols / 8, Side> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        same<way>(file, unit, Head);
        for (uint32_t at = Head; at < Head + Cols / 8; at += 4) nibbles_of_32<way>(file + at, unit + at);
    }
};
/// `Head` words of which the last has scales, then four times 16 columns, i and i + 8 in a byte.
template <uint32_t Head> struct Nvfp4 : AsIs<64, Head + 8, 0> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        same<way>(file, unit, Head - 1);
        if (way == Way::pack)
            unit[Head - 1] = spread_scales(file[Head - 1]);
        else
            file[Head - 1] = gather_scales(unit[Head - 1]);
        if (way == Way::unpack) std::for_each_n(unit + Head, 8, gather_floats);
        for (size_t at = Head; at < Head + 8; at += 2) nibbles<way>(file, at, unit, at, at + 1);
        if (way == Way::pack) std::for_each_n(unit + Head, 8, spread_floats);
    }
};
struct Q2_K : AsIs<256, 21, 0> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        same<way>(file, unit, 4);
        quarters<way>(file + 4, unit + 4);
        same<way>(file + 20, unit + 20, 1);
    }
};
struct Q3_K : AsIs<256, 27, 2, true> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        single_bits<way>(file, unit);
        quarters<way>(file + 8, unit + 8);
        same<way>(file + 24, unit + 24, 3);
    }
};
struct Q4_K : AsIs<256, 36, 0> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        same<way>(file, unit, 4);
        for (size_t at = 4; at < 36; at += 8) nibbles_of_64<way>(file + at, unit + at, 4);
    }
};
struct Q5_K : AsIs<256, 44, 0> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        same<way>(file, unit, 4);
        single_bits<way>(file + 4, unit + 4);
        for (size_t at = 12; at < 44; at += 8) nibbles_of_64<way>(file + at, unit + at, 4);
    }
};
struct Q6_K : AsIs<256, 52, 2, true> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        for (const size_t at : {0, 16}) {  // 128 columns: block 0 with 2, 1 with 3
            nibbles_of_64<way>(file + at, unit + at, 8);
            nibbles_of_64<way>(file + at + 8, unit + at + 4, 8);
        }
        quarters<way>(file + 32, unit + 32);
        same<way>(file + 48, unit + 48, 4);
    }
};
struct Tq2_0 : AsIs<256, 16, 2, true> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) { quarters<way>(file, unit); }
};
struct Q2_0 : AsIs<64, 4, 2> {
    template <Way way> static void move(uint32_t* file, uint32_t* unit) {
        for (size_t w = 0; w < 4; ++w)
            (way == Way::pack ? unit[w] : file[w]) = transpose_quarters(way == Way::pack ? file[w] : unit[w]);
    }
};

constexpr size_t word_step = 4 * WEIGHT_GROUP_ROWS;  // bytes between a row's words

template <class F>
void pack(const std::byte* row, uint64_t row_bytes, uint32_t units, RowPlace<std::byte> to) {
    for (uint32_t u = 0; u < units; ++u, row += F::bytes) {
        std::byte cut_short[F::bytes];
        const std::byte* block = row;
        if (const uint64_t left = row_bytes - u * F::bytes; left < F::bytes) {
            std::memset(cut_short, 0, F::bytes);
            std::memcpy(cut_short, row, left);
            block = cut_short;
        }
        uint32_t file[F::words], unit[F::words];
        std::memcpy(file, block + F::words_at, sizeof file);
        F::template move<Way::pack>(file, unit);
        for (uint32_t w = 0; w < F::words; ++w, to.words += word_step) std::memcpy(to.words, unit + w, 4);
        if constexpr (F::side != 0) std::memcpy(to.side, block + F::side_at, F::side);
        to.side += F::side * WEIGHT_GROUP_ROWS;
    }
}

template <class F>
void unpack(RowPlace<const std::byte> from, uint32_t units, uint64_t row_bytes, std::byte* row) {
    for (uint32_t u = 0; u < units; ++u, row += F::bytes) {
        uint32_t file[F::words], unit[F::words];
        for (uint32_t w = 0; w < F::words; ++w, from.words += word_step) std::memcpy(unit + w, from.words, 4);
        F::template move<Way::unpack>(file, unit);
        std::byte block[F::bytes];
        std::memcpy(block + F::words_at, file, sizeof file);
        if constexpr (F::side != 0) std::memcpy(block + F::side_at, from.side, F::side);
        from.side += F::side * WEIGHT_GROUP_ROWS;
        std::memcpy(row, block, std::min<uint64_t>(F::bytes, row_bytes - u * F::bytes));
    }
}

template <class F> constexpr WeightFormat format(TensorType type) {
    return {type, F::cols, F::words, F::side, pack<F>, unpack<F>};
}

constexpr WeightFormat formats[] = {
    format<AsIs<32, 32, 0>>(TensorType::f32),
    format<AsIs<32, 16, 0>>(TensorType::f16),
    format<AsIs<32, 16, 0>>(TensorType::bf16),
    format<Q4_0>(TensorType::q4_0),
    format<Nibbles<32, 1, 0>>(TensorType::q4_1),
    format<Nibbles<32, 1, 2>>(TensorType::q5_0),
    format<Nibbles<32, 2, 0>>(TensorType::q5_1),
    format<AsIs<32, 8, 2>>(TensorType::q8_0),
    format<Q2_K>(TensorType::q2_k),
    format<Q3_K>(TensorType::q3_k),
    format<Q4_K>(TensorType::q4_k),
    format<Q5_K>(TensorType::q5_k),
    format<Q6_K>(TensorType::q6_k),
    format<Q4_0>(TensorType::iq4_nl),
    format<Nibbles<256, 2, 0>>(TensorType::iq4_xs),
    format<Mxfp4>(TensorType::mxfp4),
    format<Nvfp4<1>>(TensorType::nvfp4),
    format<AsIs<256, 16, 2>>(TensorType::iq2_xxs),
    format<AsIs<256, 18, 2>>(TensorType::iq2_xs),
    format<AsIs<256, 20, 2>>(TensorType::iq2_s),
    format<AsIs<256, 24, 2>>(TensorType::iq3_xxs),
    format<AsIs<256, 27, 2>>(TensorType::iq3_s),
    format<AsIs<256, 12, 2>>(TensorType::iq1_s),
    format<AsIs<256, 14, 0>>(TensorType::iq1_m),
    format<AsIs<256, 13, 2, true>>(TensorType::tq1_0),
    format<Tq2_0>(TensorType::tq2_0),
    format<AsIs<128, 4, 2>>(TensorType::q1_0),
    format<Q2_0>(TensorType::q2_0),
    format<AsIs<32, 8, 2>>(TensorType::f8_e4m3),
    format<Nvfp4<2>>(TensorType::nvfp4_s),
};

}  // namespace

const WeightFormat& weight_format(TensorType type) {
    const auto found = std::ranges::find(formats, type, &WeightFormat::type);
    assert(found != std::end(formats));
    return *found;
}

}  // namespace scoria
