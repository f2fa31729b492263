// What the last token's computation left on the device, for others to read where it is.
#include "fail.h"
#include "session_impl.h"

#include <algorithm>

namespace scoria {

SharedView Session::share(SharedKind kind) {
    Impl& s = *impl_;
    s.needs_decoder("share");
    if (s.tokens.empty())
        fail(Status::bad_argument, "share", "expected at least one appended token, got none");
    if (kind == SharedKind::attention && !s.watched)
        fail(Status::bad_argument, "share", "expected a layer whose attention is watched, got none");
    return s.engine.survive([&] {
        s.ready();
        if (kind == SharedKind::hidden && s.stepped) s.logits_ready = false;
        s.compute_pending(nullptr);
        if (kind == SharedKind::attention) return s.shared_map();
        const Matrix row = s.batch(1, 1).matrix(kind == SharedKind::logits ? s.engine.graph.logits
                                                                           : s.engine.graph.last_hidden);
        const bool logits = row.view.buffer == s.workspace.logits.view().buffer;
        return SharedView{row.view.slice(4ull * row.first, 4ull * row.cols), 1, row.cols,
                          s.engine.device.point(s.last_submitted),
                          (logits ? s.workspace.logits : s.workspace.arena).exportable()};
    });
}

uint64_t Session::Impl::map_bytes(size_t kernel) const {
    const auto& k = std::get<kernel::Attention>(engine.plan.kernels[kernel].kernel);
    return 4ull * k.shape.heads * engine.memory.context;
}

SharedView Session::Impl::shared_map() const {
    const auto& k = std::get<kernel::Attention>(engine.plan.kernels[*watched].kernel);
    const uint32_t heads = k.shape.heads, positions = uint32_t(tokens.size());
    return {map.view(0, 4ull * heads * positions), heads, positions, engine.device.point(last_submitted),
            map.exportable()};
}

void Session::watch(std::optional<uint32_t> layer) {
    Impl& s = *impl_;
    s.needs_decoder("watch");
    const size_t layers = s.engine.model->architecture.layers.size();
    if (layer && *layer >= layers)
        fail(Status::bad_argument, "watch", "expected a layer below ", layers, ", got ", *layer);
    const auto& kernels = s.engine.plan.kernels;
    const auto seen = [&](const PlannedKernel& planned) {
        const auto* attention = std::get_if<kernel::Attention>(&planned.kernel);
        return attention && planned.layer == int32_t(*layer) && attention->shape.mask != Mask::source;
    };
    const auto found = !layer ? kernels.end()
                              : std::find_if(kernels.begin() + std::ptrdiff_t(s.engine.plan.encoder_kernels),
                                             kernels.end(), seen);
    if (layer && found == kernels.end())
        fail(Status::unsupported, "watch", "expected a layer whose attention is a matrix of queries and keys",
             " on this device, got layer ", *layer, " of ", s.engine.model->architecture.family);
    const auto kernel = size_t(found - kernels.begin());
    if (const uint64_t bytes = layer ? s.map_bytes(kernel) : 0, most = s.engine.device.caps().max_binding;
        bytes > most)
        fail(Status::unsupported, "watch", "expected a map of all heads and positions within a binding of ",
             most, " bytes, got ", bytes);
    s.engine.survive([&] {
        s.ready();
        s.land_all();  // a failed call's
        s.forget_recorded();
        s.logits_ready = false;  // the last token's map is yet to be computed
        s.map = {};
        s.watched.reset();
        if (!layer) return;
        s.map = s.shared_buffer(s.map_bytes(kernel));
        s.watched = kernel;
    });
}

void Session::wait_for(const vk::Device::TimelinePoint& point) { impl_->host_point = point; }

}  // namespace scoria
