// What routes and lists say of a mixture's experts.
const uint EXPERT_NONE = 0xFFFFFFFFu;  // in lists of expert_sort.comp
// The expert that a route names: an id past the experts counts as the last.
uint expert_of_id(const float id, const uint experts) { return id > 0.0 ? min(uint(min(id, 65535.0)), experts - 1) : 0; }
