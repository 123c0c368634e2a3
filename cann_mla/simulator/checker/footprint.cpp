#include "checker/footprint.hpp"

#include <algorithm>

namespace sim::checker {
namespace {

constexpr size_t kMaxRuns = 4096;

struct Axis {
    int64_t size;
    int64_t stride;
};

// The axes that move through memory, widest stride first, neighbours merged where they follow each other seamlessly.
std::vector<Axis> mergedAxes(const TensorDesc &desc) {
    std::vector<Axis> axes;
    for (size_t i = 0; i < desc.shape.size(); ++i) {
        if (desc.shape[i] > 1 && desc.strides[i] != 0) axes.push_back({desc.shape[i], desc.strides[i]});
    }
    std::stable_sort(axes.begin(), axes.end(), [](const Axis &a, const Axis &b) { return a.stride > b.stride; });
    std::vector<Axis> merged;
    for (const Axis &axis : axes) {
        bool seamless = !merged.empty() && merged.back().stride == axis.stride * axis.size;
        if (seamless) {
            merged.back() = {merged.back().size * axis.size, axis.stride};
        } else {
            merged.push_back(axis);
        }
    }
    return merged;
}

// Bytes around `count` elements from element `first`; 4-bit elements share bytes.
Range bytesOf(int64_t first, int64_t count, int64_t bits) {
    auto from = static_cast<size_t>(first * bits / 8), to = static_cast<size_t>(((first + count) * bits + 7) / 8);
    return {from, to};
}

}  // namespace

Footprint::Footprint(size_t begin, size_t bytes) : bounds_{begin, begin + bytes} {
    if (bytes > 0) runs_.push_back(bounds_);
}

Footprint Footprint::rows(size_t begin, size_t width, size_t pitch, size_t height) {
    if (pitch == width || height <= 1) return Footprint(begin, width * height);
    Footprint result;
    for (size_t row = 0; row < std::min(height, kMaxRuns); ++row) {
        result.runs_.push_back({begin + row * pitch, begin + row * pitch + width});
    }
    result.bounds_ = {begin, begin + (height - 1) * pitch + width};
    result.complete_ = height <= kMaxRuns;
    return result;
}

Footprint Footprint::of(std::vector<Range> ranges) {
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](const Range &r) { return r.isEmpty(); }), ranges.end());
    std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
    Footprint result;
    for (const Range &range : ranges) {
        if (!result.runs_.empty() && range.begin <= result.runs_.back().end) {
            result.runs_.back().end = std::max(result.runs_.back().end, range.end);
        } else {
            result.runs_.push_back(range);
        }
    }
    if (!result.runs_.empty()) result.bounds_ = {result.runs_.front().begin, result.runs_.back().end};
    if (result.runs_.size() > kMaxRuns) {
        result.runs_.resize(kMaxRuns);
        result.complete_ = false;
    }
    return result;
}

Footprint Footprint::movedBy(size_t distance) const {
    Footprint moved = *this;
    for (Range &run : moved.runs_) run = {run.begin + distance, run.end + distance};
    moved.bounds_ = {bounds_.begin + distance, bounds_.end + distance};
    return moved;
}

Footprint Footprint::cutOffBefore(size_t end) const {
    Footprint cut = *this;
    cut.bounds_.end = std::max(bounds_.end, end);
    cut.complete_ = false;
    return cut;
}

std::optional<Range> Footprint::overlap(const Footprint &other) const {
    if (bounds_.end <= other.bounds_.begin || other.bounds_.end <= bounds_.begin) return std::nullopt;
    auto mine = runs_.begin();
    auto theirs = other.runs_.begin();
    while (mine != runs_.end() && theirs != other.runs_.end()) {
        Range common{std::max(mine->begin, theirs->begin), std::min(mine->end, theirs->end)};
        if (!common.isEmpty()) return common;
        if (mine->end < theirs->end) {
            ++mine;
        } else {
            ++theirs;
        }
    }
    return std::nullopt;
}

bool Footprint::covers(const Footprint &other) const {
    if (other.isEmpty()) return true;
    if (!other.complete_) {
        return std::any_of(runs_.begin(), runs_.end(), [&](const Range &run) { return run.contains(other.bounds_); });
    }
    auto mine = runs_.begin();
    for (const Range &run : other.runs_) {
        while (mine != runs_.end() && mine->end < run.end) ++mine;
        if (mine == runs_.end() || !mine->contains(run)) return false;
    }
    return true;
}

Footprint footprintOf(const TensorDesc &desc, bool dense) {
    auto backwards = [](int64_t stride) { return stride < 0; };
    if (desc.isEmpty() || std::any_of(desc.strides.begin(), desc.strides.end(), backwards)) return {};
    if (isPrivateFormat(desc.format)) return Footprint(0, static_cast<size_t>(desc.extentBytes()));
    if (dense || desc.isDense()) return Footprint(0, static_cast<size_t>(packedBytes(desc.numel(), desc.dtype)));
    std::vector<Axis> axes = mergedAxes(desc);
    int64_t width = 1;
    if (!axes.empty() && axes.back().stride == 1) {
        width = axes.back().size;
        axes.pop_back();
    }
    const int64_t bits = elementBits(desc.dtype);
    std::vector<int64_t> index(axes.size(), 0);
    std::vector<Range> runs;
    int64_t offset = 0;
    bool more = true;
    while (more && runs.size() <= kMaxRuns) {
        runs.push_back(bytesOf(offset, width, bits));
        more = false;
        for (size_t axis = axes.size(); axis-- > 0 && !more;) {
            offset += axes[axis].stride;
            more = ++index[axis] < axes[axis].size;
            if (!more) {
                offset -= axes[axis].stride * axes[axis].size;
                index[axis] = 0;
            }
        }
    }
    Footprint result = Footprint::of(std::move(runs));
    return more ? result.cutOffBefore(static_cast<size_t>(desc.extentBytes())) : result;
}

}  // namespace sim::checker
