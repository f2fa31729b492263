// Pictures of what look_into() saw, and one HTML page with all of it: no script, nothing from outside.
#pragma once

#include "look/look.h"
#include "pictures/picture.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <utility>

namespace scoria::look {

/// What the numbers alone do not say.
struct LookNames {
    std::vector<std::pair<std::string, std::string>> facts;  // model, device, driver, ...
    std::function<std::string(TokenId)> token;               // its text, as UTF-8 in which white space shows
};

/// A pixel per weight, bright as its square root.
Picture map_picture(const AttentionMap& map);
/// All maps of a kind, a row per layer, a column per head.
Picture maps_picture(const Insight& insight, Seen kind);
/// Norms by layer, of the encoder or of the other layers.
Picture norms_picture(const Insight& insight, bool encoder);
/// The likeliest token by layer and position; ASCII alone.
Picture lens_picture(const Insight& insight, const LookNames& names);

std::string look_html(const Insight& insight, const LookNames& names);
nlohmann::ordered_json look_json(const Insight& insight, const LookNames& names);

}  // namespace scoria::look
