// Runs one kernel on the emulator's runtime in a process of its own, so that both may be built for another machine.
//
//     remote RUNTIME.so KERNEL.so ENTRY REQUEST ANSWER
//
// REQUEST: the TlEmuLaunch, three numbers (room for findings, places, events), the count of arguments, then each as
// two numbers (bytes, whether it is a buffer; for a buffer the id and whether it may be written follow) and its
// bytes, and the tiles. ANSWER: the code, the TlEmuReport, the notes that it counts, the buffers. Numbers are 64 bits.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tl_emu.h"

namespace {

FILE* file;

void* need(void* found, const char* what) {
    if (found != nullptr) return found;
    fprintf(stderr, "%s: %s\n", what, dlerror());
    exit(3);
}
void get(void* to, size_t bytes) {
    if (bytes != 0 && fread(to, 1, bytes, file) != bytes) exit(4);
}
uint64_t number() {
    uint64_t found;
    get(&found, sizeof found);
    return found;
}

struct Argument {
    uint64_t bytes, is_buffer;
    void* data;
};

}  // namespace

int main(int, char** words) {
    void* runtime = need(dlopen(words[1], RTLD_NOW | RTLD_GLOBAL), words[1]);
    void* kernel = need(dlopen(words[2], RTLD_NOW), words[2]);
    auto run = (decltype(&tl_emu_run))need(dlsym(runtime, "tl_emu_run"), "tl_emu_run");
    file = fopen(words[4], "rb");
    TlEmuLaunch launch;
    get(&launch, sizeof launch);
    std::vector<TlEmuFinding> findings(number());
    std::vector<TlEmuSite> sites(number());
    std::vector<TlEmuEvent> events(number());
    std::vector<Argument> arguments(number());
    std::vector<TlEmuBuffer> buffers;
    std::vector<void*> params;
    for (Argument& each : arguments) {
        each.bytes = number();
        each.is_buffer = number();
        const uint32_t id = each.is_buffer ? (uint32_t)number() : 0, writable = each.is_buffer ? (uint32_t)number() : 0;
        each.data = aligned_alloc(256, (each.bytes + 255) / 256 * 256 + 256);
        get(each.data, each.bytes);
        if (each.is_buffer) buffers.push_back({(uint64_t)each.data, each.bytes, id, writable});
    }
    for (Argument& each : arguments) params.push_back(each.is_buffer ? (void*)&each.data : each.data);
    std::vector<TlEmuTile> tiles(launch.tile_count);
    get(tiles.data(), tiles.size() * sizeof(TlEmuTile));
    fclose(file);
    launch.entry = (void (*)(void**))need(dlsym(kernel, words[3]), words[3]);
    launch.params = params.data();
    launch.buffers = buffers.data();
    launch.buffer_count = (uint32_t)buffers.size();
    launch.tiles = tiles.data();
    TlEmuReport report = {};
    report.abi = TL_EMU_ABI;
    report.findings = findings.data();
    report.sites = sites.data();
    report.events = events.data();
    report.finding_capacity = (uint32_t)findings.size();
    report.site_capacity = (uint32_t)sites.size();
    report.event_capacity = (uint32_t)events.size();
    const int64_t code = run(&launch, &report);
    file = fopen(words[5], "wb");
    fwrite(&code, sizeof code, 1, file);
    fwrite(&report, sizeof report, 1, file);
    fwrite(findings.data(), sizeof(TlEmuFinding), report.finding_count, file);
    fwrite(sites.data(), sizeof(TlEmuSite), report.site_count, file);
    fwrite(events.data(), sizeof(TlEmuEvent), report.event_count, file);
    for (const Argument& each : arguments)
        if (each.is_buffer) fwrite(each.data, 1, each.bytes, file);
    return fclose(file);
}
