// SHA-256 as FIPS 180-4 defines it. Own code: a crypto library would be the program's largest dependency
// for one digest per pulled model.
#include "models.h"

#include "file.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace scoria::cli {
namespace {

// Section 4.2.2: fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Section 5.3.3: fractional parts of the square roots of the first 8 primes.
constexpr std::array<uint32_t, 8> initial_state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr size_t block_bytes = 64;

uint32_t big_endian(const std::byte* bytes) {
    uint32_t word;
    std::memcpy(&word, bytes, 4);
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
}

// Section 6.2.2.
void compress(std::array<uint32_t, 8>& state, const std::byte* block) {
    std::array<uint32_t, 64> w;
    for (size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
        const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t t = 0; t < 64; ++t) {
        const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t choose = (e & f) ^ (~e & g);
        const uint32_t t1 = h + sum1 + choose + round_constants[t] + w[t];
        const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + sum0 + majority;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state.size(); ++i) state[i] += add[i];
}

// Section 5.1.1: a one bit, zeros, and the length in bits as 64 big-endian bits.
std::vector<std::byte> padded(std::vector<std::byte> tail, uint64_t bytes) {
    tail.push_back(std::byte{0x80});
    while (tail.size() % block_bytes != block_bytes - 8) tail.push_back(std::byte{0});
    for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(static_cast<std::byte>((bytes * 8) >> shift));
    return tail;
}

}  // namespace

std::string sha256_of(const std::filesystem::path& path) {
    constexpr uint64_t chunk = 1 << 20;  // a multiple of the block
    const File file(path.string());
    std::array<uint32_t, 8> state = initial_state;
    std::vector<std::byte> bytes;
    for (uint64_t offset = 0; offset <= file.size(); offset += chunk) {
        const bool last = file.size() - offset < chunk;
        bytes.resize(last ? file.size() - offset : chunk);
        file.read(offset, bytes);
        if (last) bytes = padded(std::move(bytes), file.size());
        for (size_t i = 0; i < bytes.size(); i += block_bytes) compress(state, bytes.data() + i);
    }
    std::string hex;
    for (const uint32_t word : state)
        for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(word >> shift) & 15];
    return hex;
}

}  // namespace scoria::cli
