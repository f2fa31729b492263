// How a chat template wants to be told of the calls that earlier answers made. The API has their arguments as
// a text, and null for what is said beside them; each template was written for one form of either, and some
// show nothing of a call in another.
#pragma once

#include "requests.h"

namespace scoria::server {

struct CallForm {
    bool text_arguments = false;  // else an object
    bool null_content = false;    // of a message that says nothing else; else an empty text
    bool operator==(const CallForm&) const = default;
};

/// By trial: the first form in which the template shows a call, or the usual one where it shows none.
CallForm call_form(const ChatTemplate& chat_template);

/// Brings the calls of a conversation into that form. Arguments that are no JSON stay a text.
void shape_calls(Json& messages, const CallForm& form);

}  // namespace scoria::server
