// Errors as tests expect them: a status and a part of the text.
#pragma once

#include "fail.h"

#include <doctest/doctest.h>

namespace scoria {

/// Runs `body`, which must throw an Error of `status` whose text contains `part`.
template <class Body> void expect_error(Status status, const std::string& part, Body&& body) {
    try {
        body();
        FAIL_CHECK("expected an error with \"" << part << "\", got none");
    } catch (const Error& error) {
        CHECK(error.status() == status);
        const std::string text = error.what();
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    }
}

}  // namespace scoria
