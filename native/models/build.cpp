#include "models/build.h"

#include "recurrent/network.h"
#include "transformer/transformer.h"

namespace uwaga {

NetworkPtr build_model(const Parts& parts, Isa isa, void (*check_interrupt)()) {
    const bool recurrent = parts.settings.count("family");
    const std::shared_ptr<Network> network = recurrent ? build_recurrent(parts) : build_transformer(parts);
    network->kernels = &kernels_of(isa);
    network->workers.configure(PartReader(*network, parts).integer("threads", 1), check_interrupt);
    return network;
}

}  // namespace uwaga
