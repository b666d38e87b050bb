#include "checkpoints/model_files.h"

#include <limits>

#include "checkpoints/folders.h"
#include "checkpoints/packer.h"
#include "search/sentence_search.h"

namespace uwaga {

void read_alignment_head(const Folder& folder, OpenedModel& made) {
    std::string_view content;
    const std::string name = "alignment_head.json";
    if (!folder.has(name, largest_config, content)) return;
    const Json head = named(folder.path(name), [&] { return Json::read(content); });
    Fields fields(head, folder.path(name) + ": ", Fault::model);
    made.head.layer = fields.whole("layer", 1, made.settings.decoder_layers) - 1;
    made.head.head = fields.has("head") ? fields.whole("head", 1, made.settings.decoder_heads) - 1 : -1;
    made.head.reading = fields.choice("step", {"predicting", "reading"}) == 1;
    fields.pass({"links"});
    fields.check_all_used();
}

void read_options(Fields& fields, Decoding& d) {
    d.beam = fields.whole("beam", 1, widest_beam, d.beam);
    d.nbest = fields.whole("nbest", 1, widest_beam, d.nbest);
    d.length_penalty = fields.number("length_penalty", -10, 10, d.length_penalty);
    if (fields.has("length_formula")) d.length_formula = fields.choice("length_formula", {"average", "gnmt", "none"});
    if (const Json* const stopping = fields.find("early_stopping")) {
        if (const bool* const full = stopping->boolean()) {
            d.stopping = static_cast<int>(*full ? Stopping::full : Stopping::exact);
        } else {
            fields.choice("early_stopping", {"estimate"});
            d.stopping = static_cast<int>(Stopping::estimate);
        }
    }
    d.min_length = fields.whole("min_length", 0, most_tokens, d.min_length);
    if (const Json* const longest = fields.find("max_length")) d.max_length = longest->null() ? 0 : fields.whole("max_length", 1, most_tokens);
    if (const Json* const ratio = fields.find("max_ratio")) d.max_ratio = ratio->null() ? std::numeric_limits<double>::infinity() : fields.number("max_ratio", 0, 1e300);
    d.max_extra = fields.whole("max_extra", 0, most_tokens, d.max_extra);
    if (d.nbest > d.beam) fields.refuse("nbest", "is more than beam");
    if (d.max_length && d.min_length > d.max_length) fields.refuse("min_length", "is more than max_length");
}

std::unique_ptr<OpenedModel> open_model(const std::string& place, const ModelFiles& files, const OpenOptions& options) {
    const Folder folder(place, files);
    bool marian = false;
    for (const std::string& name : files.names) {
        if (name == "config.json") return open_uwaga(folder, options);
        marian = marian || is_marian_weights(name);
    }
    return marian ? open_marian(folder, options) : open_uwaga(folder, options);
}

}  // namespace uwaga
