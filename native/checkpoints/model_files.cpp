#include "checkpoints/model_files.h"

#include <limits>

#include "checkpoints/folders.h"
#include "checkpoints/marian_files.h"
#include "checkpoints/packer.h"
#include "search/sentence_search.h"

namespace uwaga {

void read_alignment_head(const Folder& folder, OpenedModel& opened) {
    std::string_view content;
    const std::string name = "alignment_head.json";
    if (!folder.has(name, max_config_bytes, content)) return;
    const Json head = named(folder.path(name), [&] { return Json::read(content); });
    Fields fields(head, folder.path(name) + ": ", Fault::model);
    opened.head.layer = fields.integer("layer", 1, opened.settings.decoder_layers) - 1;
    opened.head.head = fields.has("head") ? fields.integer("head", 1, opened.settings.decoder_heads) - 1 : -1;
    opened.head.reads_token = fields.choice("step", {"predicting", "reading"}) == 1;
    fields.ignore({"links"});
    fields.check_all_used();
}

void read_options(Fields& fields, Decoding& d) {
    d.beam = fields.integer("beam", 1, max_beam, d.beam);
    d.nbest = fields.integer("nbest", 1, max_beam, d.nbest);
    d.length_penalty = fields.number("length_penalty", -10, 10, d.length_penalty);
    if (fields.has("length_formula"))
        d.length_formula = fields.choice("length_formula", {"average", "gnmt", "none"});
    if (const Json* const stopping = fields.find("early_stopping")) {
        if (const bool* const full = stopping->boolean()) {
            d.stopping = static_cast<int>(*full ? Stopping::full : Stopping::exact);
        } else {
            fields.choice("early_stopping", {"estimate"});
            d.stopping = static_cast<int>(Stopping::estimate);
        }
    }
    d.min_length = fields.integer("min_length", 0, max_tokens, d.min_length);
    if (const Json* const longest = fields.find("max_length"))
        d.max_length = longest->null() ? 0 : fields.integer("max_length", 1, max_tokens);
    if (const Json* const ratio = fields.find("max_ratio"))
        d.max_ratio = ratio->null() ? std::numeric_limits<double>::infinity()
                                    : fields.number("max_ratio", 0, 1e300);
    d.max_extra = fields.integer("max_extra", 0, max_tokens, d.max_extra);
    if (d.nbest > d.beam) fields.refuse("nbest", "is more than beam");
    if (d.max_length && d.min_length > d.max_length) fields.refuse("min_length", "is more than max_length");
}

std::unique_ptr<OpenedModel> open_model(const std::string& location, const ModelFiles& files,
                                        const OpenOptions& options) {
    const Folder folder(location, files);
    bool marian = false;
    for (const std::string& name : files.names) {
        if (name == "config.json") return open_uwaga(folder, options);
        marian = marian || is_marian_weights(name);
    }
    return marian ? open_marian(folder, options) : open_uwaga(folder, options);
}

}  // namespace uwaga
