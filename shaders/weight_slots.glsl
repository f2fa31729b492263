// Words of one shard's weights (weight_planes.h), as the includer of dequant.glsl loads them: a lane a row, or four rows at
// once (ROW_QUADS), or W_ROWS (ROW_SPANS), or pairs whose places it keeps (ROW_PLACES), or on CPU drivers (COMPACT) by doubles
// or texels (TEXELS).
//
// Word `first` + `more`: where `more` is a constant it is added last, so that compilers put it into the load, and loads that
// differ by nothing else share an address (12 of a cell and two rows took as many additions before).

// Which of the 16 rows of a group a function is asked for.
#ifdef COMPACT
// Row 2 (2 doubles + part) + odd: rows of equal parity stand side by side and are loaded by twos, since eight bytes are
// hardly dearer than four there. `part` and `odd` are constants where loops are unrolled, so that equal loads meet.
struct Slot {
    uint doubles, part;
    bool odd;
};
#ifdef TEXELS
// A lane has the four pairs of a texel.
uint weight_double_part(const uint at, const Slot slot) { return texelFetch(weight_texels, int(at / 2))[slot.part]; }
#else
uint weight_double_part(const uint at, const Slot slot) {
    return unpack32(weight_doubles[at + slot.part / 2])[slot.part % 2];
}
#endif
uint weight_word(const uint first, const uint more, const Slot slot) {
    const uint at = (first + more) * (WEIGHT_GROUP_ROWS / 2) + slot.doubles;
    return weight_double_part(slot.odd ? at + WEIGHT_GROUP_PAIRS / 2 : at, slot);
}
uint side_halves(const uint unit, const Slot slot) {
    return weight_double_part(WEIGHT_SIDE_PLANE / 2 + unit * (WEIGHT_GROUP_PAIRS / 2) + slot.doubles, slot);
}
bool odd_row(const Slot slot) { return slot.odd; }
uint row_in_group(const Slot slot) { return 4 * slot.doubles + 2 * slot.part + uint(slot.odd); }
#elif defined(ROW_PLACES) || defined(ROW_QUADS)
// Cells are counted from the row's first, whose words are here: what is added to those is the same in all lanes, and
// GPUs that have scalar units compute it there.
const bool WEIGHT_SIDE_BYTES = WEIGHT_TYPE == WEIGHT_MXFP4;
const uint WEIGHT_SIDE_WORDS = WEIGHT_SIDE_BYTES ? WEIGHT_GROUP_ROWS / 4 : WEIGHT_GROUP_ROWS / 2;
#ifdef ROW_QUADS
// A lane has four rows of equal parity, whose words stand side by side and are loaded as one; the includer declares
// `readonly buffer { uvec4 weight_quads[]; }`, too. `part`, of the four, is a constant where loops are unrolled, so that
// equal loads meet.
struct Slot {
    uint quad, side, lane, part;
};
// Lanes 0 and 1 have the even rows, 2 and 3 the odd ones.
Slot first_slot(const uint group_word, const uint group_unit, const uint lane) {
    const uint side = WEIGHT_SIDE_PLANE + group_unit * WEIGHT_SIDE_WORDS + lane % 2 * (WEIGHT_SIDE_WORDS / 2);
    return Slot(group_word / 4 + lane, WEIGHT_SIDE_BYTES ? side : side / 4, lane, 0);
}
Slot next_slot(const Slot slot, const uint part) { return Slot(slot.quad, slot.side, slot.lane, part); }
uint weight_word(const uint first, const uint more, const Slot slot) {
    const uvec4 quad = weight_quads[first * (WEIGHT_GROUP_ROWS / 4) + slot.quad + more * (WEIGHT_GROUP_ROWS / 4)];
    return quad[slot.part];
}
uint side_halves(const uint unit, const Slot slot) {
    const uvec4 quad = weight_quads[unit * (WEIGHT_SIDE_WORDS / 4) + slot.side];
    return quad[slot.part];
}
uint side_bytes(const uint unit, const Slot slot) {
    return weight_words[unit * WEIGHT_SIDE_WORDS + slot.side + slot.part / 2];
}
bool odd_row(const Slot slot) { return slot.lane >= 2; }
uint byte_in_word(const Slot slot) { return slot.part % 2 * 2 + uint(odd_row(slot)); }
#else
struct Slot {
    uint word, side, pair;
    bool odd;
};
Slot first_slot(const uint group_word, const uint group_unit, const uint pair) {
    const uint side = WEIGHT_SIDE_PLANE + group_unit * WEIGHT_SIDE_WORDS + (WEIGHT_SIDE_BYTES ? pair / 2 : pair);
    return Slot(group_word + pair, side, pair, false);
}
Slot odd_slot(const Slot even) { return Slot(even.word, even.side, even.pair, true); }
uint weight_word(const uint first, const uint more, const Slot slot) {
    return weight_words[first * WEIGHT_GROUP_ROWS + slot.word +
                        (more * WEIGHT_GROUP_ROWS + (slot.odd ? WEIGHT_GROUP_PAIRS : 0))];
}
uint side_halves(const uint unit, const Slot slot) { return weight_words[unit * WEIGHT_SIDE_WORDS + slot.side]; }
uint side_bytes(const uint unit, const Slot slot) { return side_halves(unit, slot); }
bool odd_row(const Slot slot) { return slot.odd; }
uint byte_in_word(const Slot slot) { return slot.pair % 2 * 2 + uint(odd_row(slot)); }
#endif
#elif defined(ROW_SPANS)
// A lane has W_ROWS (4, 2 or 1) neighbouring slots, whose words it loads as one: the includer declares weight_quads[], as
// above, and weight_pairs[], of uvec2. `span` counts such neighbours, and `part`, of those, is a constant where loops are
// unrolled.
struct Slot {
    uint span, part;
};
const uint SPANS = WEIGHT_GROUP_ROWS / W_ROWS;
uint weight_span(const uint at, const Slot slot) {
    uvec4 words;
    if (W_ROWS == 4) words = weight_quads[at];
    if (W_ROWS == 2) words.xy = weight_pairs[at];
    if (W_ROWS == 1) words.x = weight_words[at];
    return words[slot.part];
}
uint weight_word(const uint first, const uint more, const Slot slot) {
    return weight_span(first * SPANS + slot.span + more * SPANS, slot);
}
uint side_halves(const uint unit, const Slot slot) {
    return weight_span(WEIGHT_SIDE_PLANE / W_ROWS + unit * (SPANS / 2) + slot.span % (SPANS / 2), slot);
}
bool odd_row(const Slot slot) { return slot.span >= SPANS / 2; }
uint row_in_group(const Slot slot) {
    return (slot.span * W_ROWS + slot.part) % WEIGHT_GROUP_PAIRS * 2 + uint(odd_row(slot));
}
#else
#define Slot uint
uint weight_word(const uint first, const uint more, const Slot slot) {
    return weight_words[first * WEIGHT_GROUP_ROWS + slot + more * WEIGHT_GROUP_ROWS];
}
// Slots i and i + 8 are rows 2i and 2i + 1, which share a word.
uint side_halves(const uint unit, const Slot slot) {
    return weight_words[WEIGHT_SIDE_PLANE + unit * WEIGHT_GROUP_PAIRS + slot % WEIGHT_GROUP_PAIRS];
}
Slot slot_of_row(const uint row) { return row % 2 * WEIGHT_GROUP_PAIRS + row % WEIGHT_GROUP_ROWS / 2; }
bool odd_row(const Slot slot) { return slot >= WEIGHT_GROUP_PAIRS; }
uint row_in_group(const Slot slot) { return slot % WEIGHT_GROUP_PAIRS * 2 + uint(odd_row(slot)); }
#endif
uint weight_word(const uint word, const Slot slot) { return weight_word(word, 0, slot); }
#if !defined(ROW_PLACES) && !defined(ROW_QUADS)
uint side_bytes(const uint unit, const Slot slot) {
    const uint word = WEIGHT_SIDE_PLANE + unit * (WEIGHT_GROUP_ROWS / 4) + row_in_group(slot) / 4;
#ifdef TEXELS
    return texelFetch(weight_texels, int(word / 4))[word % 4];
#else
    return weight_words[word];
#endif
}
uint byte_in_word(const Slot slot) { return row_in_group(slot) % 4; }
#endif
// A word of the table, and words 2 * pair and 2 * pair + 1.
#ifdef GRID
uint weight_table(const uint word) { return grid_words[word]; }
uvec2 weight_table_pair(const uint pair) { return unpack32(grid_doubles[pair]); }
#else
uint weight_table(const uint word) { return weight_words[WEIGHT_TABLE_PLANE + word]; }
#if defined(COMPACT) && !defined(TEXELS)
uvec2 weight_table_pair(const uint pair) { return unpack32(weight_doubles[WEIGHT_TABLE_PLANE / 2 + pair]); }
#else
uvec2 weight_table_pair(const uint pair) { return uvec2(weight_table(2 * pair), weight_table(2 * pair + 1)); }
#endif
#endif

// Of the types whose units have a half each, rows 2i and 2i + 1 in a word, or a byte each, or a word of two halves.
Unit side_unit(const uint unit, const Slot slot, const uvec3 words) {
    return Unit(side_halves(unit, slot), odd_row(slot) ? 16 : 0, words);
}
Unit byte_unit(const uint unit, const Slot slot) {
    return Unit(side_bytes(unit, slot), 8 * byte_in_word(slot), uvec3(0));
}
Unit pair_unit(const uint word, const Slot slot) { return Unit(weight_word(word, slot), 0, uvec3(0)); }

// Two words of a cell, one for chunks 0 and 1 and one for 2 and 3. Lanes that take whole cells load both when the cell is
// begun where loads are dear (COMPACT) or are all made ahead, else each when it is wanted; lanes that take a chunk load its
// word (load_weights).
#if defined(COMPACT) || defined(ROW_QUADS)
uvec2 chunk_words(const uint word, const Slot slot) {
    return uvec2(weight_word(word, slot), weight_word(word, 1, slot));
}
uint chunk_word(const uvec4 words, const Slot slot, const uint chunk) { return chunk < 2 ? words.x : words.y; }
#else
uvec2 chunk_words(const uint word, const Slot slot) { return uvec2(word, 0); }
#ifdef ROW_PLACES
uint chunk_word(const uvec4 words, const Slot slot, const uint chunk) { return weight_word(words.x, chunk / 2, slot); }
#else
uint chunk_word(const uvec4 words, const Slot slot, const uint chunk) { return words.x; }
#endif
#endif
