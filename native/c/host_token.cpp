// The callback of streams where the host is JavaScript: one imported function, which receives the object of
// the call.
#if defined(__wasm__)

#include "c/uwaga.h"

extern "C" {

__attribute__((import_module("env"), import_name("on_token"))) int host_token(void* user, size_t text,
                                                                              int32_t token, double log_prob,
                                                                              const char* translation);

uwaga_call* uwaga_host_call_new(void* user) { return uwaga_call_new(host_token, user); }
}

#endif
