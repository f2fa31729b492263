// validate --compile-only: what a driver's compiler makes of the kernels, on devices that need not compute.
#pragma once

#include "validate/check.h"

#include <string>

namespace scoria::cli {

struct Common;

/// Makes every pipeline of a tier (of one op, if `op` names one), or with a model those that it uses here for
/// prompts and for one token, and prints what the compiler reports of each as a table, and as JSON into the
/// file `json`, if it is given ("-": on stdout, instead of the table); results are ignored. Returns the exit
/// code: 1 if something failed.
int compile_only(const Common& common, validate::Tier tier, const std::string& op, const std::string& json);

}  // namespace scoria::cli
