// Errors that a host reports with a code.
#pragma once

#include <stdexcept>
#include <string>

namespace uwaga {

// The numbers are those of native/c/uwaga.h.
enum class Fault {
    argument = 1,
    file = 2,
    model = 3,
    text = 4,
    too_long = 5,
    language = 6,
    memory = 7,
    cancelled = 8
};

struct Failure : std::runtime_error {
    Failure(Fault kind, const std::string& message) : std::runtime_error(message), fault(kind) {}
    Fault fault;
};

}  // namespace uwaga
