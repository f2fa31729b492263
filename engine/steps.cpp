// The steps of a session: one token, or a guess and what precedes it.
#include "session_impl.h"

#include "system.h"

#include <algorithm>

namespace scoria {

void Session::Impl::record_step(Step& step, uint32_t count, const std::function<void(vk::Recorder&)>& end) {
    Batch work = batch(count, engine.stream_out ? 0 : count);
    Tenant::record_step(step, work, std::max(source, uint32_t(tokens.size())),
                        {.before = [&](vk::Recorder& recorder) { receive(recorder, work); },
                         .behind =
                             [&](vk::Recorder& recorder) {
                                 send(recorder, work);
                                 if (end) end(recorder);
                             },
                         .after =
                             [&](vk::Recorder& recorder, size_t kernel) {
                                 // Else what comes last is a guess.
                                 if (count == 1) watch(recorder, work, kernel);
                                 show(recorder, work, kernel);
                             }});
}

vk::Device::Ticket Session::Impl::submit_pass(uint32_t count) {
    reserve_scratch(count, count);  // which may forget all steps
    Step& pass = passes[count];
    if (!stands(pass, count)) record_step(pass, count, {});
    return submit_step(pass, count);
}

vk::Device::Ticket Session::Impl::submit_decode(const SampleKind& kind) {
    reserve_scratch(1, 1);
    if (decode_recorded != kind || !stands(decode, 1)) {
        record_step(decode, 1, [&](vk::Recorder& recorder) {
            sample(recorder, kind);
            recorder.make_host_visible();
        });
        decode_recorded = kind;
    }
    const double start = thread_cpu_us();
    const vk::Device::Ticket ticket = submit_step(decode, 1);
    constexpr size_t remembered = 256;
    if (submit_us.size() == remembered) submit_us.pop_front();
    submit_us.push_back(thread_cpu_us() - start);
    return ticket;
}

}  // namespace scoria
