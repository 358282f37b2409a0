// Tiled and im2col boxes, line by line.
#include "tma_copy.h"

#include <algorithm>
#include <cstring>

#include "atomics.h"
#include "numbers.h"

namespace tl_emu {

namespace {

constexpr uint32_t most_line_bytes = 256 * 8;

int64_t extent(const TensorMap& map, int d) { return (int64_t)map.last[d] + 1; }

// Calls visit(number, line): the address of element 0 of the innermost dim, null where a line is outside.
template <class Visit> void each_tiled_line(const Box& box, Visit visit) {
    const TensorMap& map = box.map;
    uint32_t index[5] = {0, 0, 0, 0, 0};
    const uint32_t lines = line_count(map);
    for (uint32_t number = 0; number < lines; ++number) {
        uint64_t address = map.base;
        bool inside = true;
        for (int d = 1; d < map.rank; ++d) {
            const int64_t at = (int64_t)box.at[d] + (int64_t)index[d] * map.steps[d];
            inside &= at >= 0 && at < extent(map, d);
            address += (uint64_t)at * map.strides[d - 1];
        }
        visit(number, inside ? reinterpret_cast<uint8_t*>(address) : nullptr);
        for (int d = 1; d < map.rank; ++d) {
            if ((++index[d]) * map.steps[d] < map.box[d]) break;
            index[d] = 0;
        }
    }
}

// Pixels run through the bounding box, width first; the filter's offset is added to each of them.
template <class Visit> void each_pixel(const Box& box, Visit visit) {
    const TensorMap& map = box.map;
    const int spatial = map.rank - 2, images = map.rank - 1;
    int64_t at[5];
    std::copy_n(box.at, 5, at);
    for (uint32_t number = 0; number < map.pixels; ++number) {
        uint64_t address = map.base;
        bool inside = true;
        for (int d = 1; d <= images; ++d) {
            const int64_t x = at[d] + (d <= spatial ? box.offsets[d - 1] : 0);
            inside &= x >= 0 && x < extent(map, d);
            address += (uint64_t)x * map.strides[d - 1];
        }
        visit(number, inside ? reinterpret_cast<uint8_t*>(address) : nullptr);
        for (int d = 1; d <= images; ++d) {
            if (d == images) { ++at[d]; break; }
            at[d] += map.steps[d];
            if (at[d] < extent(map, d) + map.upper[d - 1]) break;
            at[d] = map.lower[d - 1];
        }
    }
}

template <class Visit> void each_line(const Box& box, Visit visit) {
    if (box.map.im2col) each_pixel(box, visit);
    else each_tiled_line(box, visit);
}

// The part of a line inside the tensor, in units: the first in the box, the first in the tensor, how many.
struct Part {
    int64_t in_box, in_tensor, count;
};

Part inside_part(const Box& box) {
    const Unit unit = unit_of(box.map);
    const int64_t first = box.at[0] / (int64_t)unit.elements, wide = box.map.box[0] / unit.elements;
    const int64_t all = (extent(box.map, 0) + unit.elements - 1) / unit.elements;
    const int64_t low = std::clamp<int64_t>(first, 0, all), high = std::clamp<int64_t>(first + wide, 0, all);
    return {low - first, low, high - low};
}

// Loads round float32 to tf32 if the map has that type, ties to even. The types whose name promises to flush subnormal
// numbers do not flush them here. Both as measured on an H200.
void convert_words(const TensorMap& map, uint8_t* line, size_t bytes) {
    if (map.type != 11 && map.type != 12) return;
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word;
        std::memcpy(&word, line + i, 4);
        if ((word & 0x7f800000u) != 0x7f800000u) word += 0x0fffu + (word >> 13 & 1u);
        word &= 0xffffe000u;
        std::memcpy(line + i, &word, 4);
    }
}

void fill_outside(const TensorMap& map, uint8_t* line, uint32_t bytes) {
    std::memset(line, 0, bytes);
    if (!map.fill_nan) return;
    const Unit unit = unit_of(map);
    const uint64_t nan = unit.kind == kind_f64 ? 0x7fffffffffffffffull : unit.global_bytes == 4 ? canonical_nan : 0x7fffu;
    for (uint32_t i = 0; i < bytes; i += unit.shared_bytes) std::memcpy(line + i, &nan, unit.shared_bytes);
}

uint8_t* chunk(const TensorMap& map, const TilePlace& place, uint32_t offset) {
    const uint32_t address = place.address + offset;
    return place.data + (int32_t)((address ^ swizzle_bits(map.swizzle, address)) - place.address);
}

}  // namespace

void load_box(const Box& box, const TilePlace* places, int count) {
    const TensorMap& map = box.map;
    const Unit unit = unit_of(map);
    const Part part = inside_part(box);
    const uint32_t bytes = line_bytes(map), pitch = line_pitch(map);
    each_line(box, [&](uint32_t number, const uint8_t* line) {
        alignas(16) uint8_t made[most_line_bytes];
        fill_outside(map, made, bytes);
        if (line && unit.global_bytes == unit.shared_bytes)
            std::memcpy(made + part.in_box * unit.shared_bytes, line + part.in_tensor * unit.global_bytes, (size_t)part.count * unit.global_bytes);
        else if (line)
            for (int64_t i = 0; i < part.count; ++i)
                std::memcpy(made + (part.in_box + i) * unit.shared_bytes, line + (part.in_tensor + i) * unit.global_bytes, unit.global_bytes);
        convert_words(map, made, bytes);
        for (int p = 0; p < count; ++p)
            for (uint32_t at = 0; at < bytes; at += 16) std::memcpy(chunk(map, places[p], number * pitch + at), made + at, 16);
    });
}

void store_box(const Box& box, const TilePlace& place, char what) {
    const TensorMap& map = box.map;
    const Unit unit = unit_of(map);
    const Part part = inside_part(box);
    const uint32_t bytes = line_bytes(map), pitch = line_pitch(map);
    each_line(box, [&](uint32_t number, uint8_t* line) {
        if (!line) return;
        alignas(16) uint8_t read[most_line_bytes];
        for (uint32_t at = 0; at < bytes; at += 16) std::memcpy(read + at, chunk(map, place, number * pitch + at), 16);
        for (int64_t i = 0; i < part.count; ++i) {
            const uint8_t* from = read + (part.in_box + i) * unit.shared_bytes;
            uint8_t* to = line + (part.in_tensor + i) * unit.global_bytes;
            if (what == '=') std::memcpy(to, from, unit.global_bytes);
            else reduce_element(what, unit.kind, to, from);
        }
    });
}

std::vector<Range> global_ranges(const Box& box) {
    std::vector<Range> found;
    const Unit unit = unit_of(box.map);
    const Part part = inside_part(box);
    if (part.count == 0) return found;
    each_line(box, [&](uint32_t, const uint8_t* line) {
        if (!line) return;
        const uint8_t* from = line + part.in_tensor * unit.global_bytes;
        const size_t bytes = (size_t)part.count * unit.global_bytes;
        if (!found.empty() && static_cast<const uint8_t*>(found.back().address) + found.back().bytes == from) found.back().bytes += bytes;
        else found.push_back({from, bytes});
    });
    return found;
}

std::vector<Range> shared_ranges(const TensorMap& map, const TilePlace& place) {
    const uint32_t bytes = line_bytes(map), pitch = line_pitch(map), lines = line_count(map);
    if (bytes == pitch) return {{place.data, (size_t)bytes * lines}};
    std::vector<Range> found;
    for (uint32_t number = 0; number < lines; ++number)
        for (uint32_t at = 0; at < bytes; at += 16) found.push_back({chunk(map, place, number * pitch + at), 16});
    return found;
}

}  // namespace tl_emu
