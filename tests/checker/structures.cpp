// The checker's own data: footprints of views, clocks, histories of accesses, written bytes. Everything is compared with
// sets of single bytes, or with what was worked out by hand. Prints what is wrong and ends with 1.
#include <cstdio>
#include <random>
#include <set>
#include <vector>

#include "checker/accesses.hpp"
#include "checker/clocks.hpp"
#include "checker/footprint.hpp"
#include "checker/written.hpp"

using namespace sim;
using namespace sim::checker;

namespace {

int failures = 0;

void check(bool ok, const char *what) {
    if (ok) return;
    if (failures++ < 20) std::printf("wrong: %s\n", what);
}

std::mt19937 random_bits(7);
size_t draw(size_t below) { return random_bits() % below; }

using Bytes = std::set<size_t>;

Bytes bytesOf(const Footprint &where) {
    Bytes bytes;
    for (const Range &run : where.runs()) {
        for (size_t at = run.begin; at < run.end; ++at) bytes.insert(at);
    }
    return bytes;
}

bool meet(const Bytes &a, const Bytes &b) {
    for (size_t at : a) {
        if (b.count(at)) return true;
    }
    return false;
}

Bytes bytesOf(const TensorDesc &view) {
    Bytes bytes;
    std::vector<int64_t> index(view.shape.size(), 0);
    for (bool more = true; more;) {
        int64_t element = 0;
        for (size_t i = 0; i < index.size(); ++i) element += index[i] * view.strides[i];
        const int64_t bits = elementBits(view.dtype);
        for (int64_t at = element * bits / 8; at <= ((element + 1) * bits - 1) / 8; ++at) bytes.insert(static_cast<size_t>(at));
        more = false;
        for (size_t axis = index.size(); axis-- > 0 && !more;) {
            more = ++index[axis] < view.shape[axis];
            if (!more) index[axis] = 0;
        }
    }
    return bytes;
}

TensorDesc view(std::vector<int64_t> shape, std::vector<int64_t> strides, aclDataType dtype = ACL_FLOAT) {
    TensorDesc desc;
    desc.shape = std::move(shape);
    desc.strides = std::move(strides);
    desc.dtype = dtype;
    desc.format = ACL_FORMAT_ND;
    return desc;
}

void footprintsOfViews() {
    const aclDataType dtypes[] = {ACL_FLOAT, ACL_BF16, ACL_INT8, ACL_INT4};
    for (int round = 0; round < 2000; ++round) {
        TensorDesc desc = view({}, {}, dtypes[draw(4)]);
        for (size_t axis = draw(4) + 1; axis-- > 0;) {
            desc.shape.push_back(static_cast<int64_t>(draw(4) + 1));
            desc.strides.push_back(static_cast<int64_t>(draw(9)));
        }
        Footprint where = footprintOf(desc, false);
        check(where.complete() && bytesOf(where) == bytesOf(desc), "the bytes of a strided view");
    }
    check(footprintOf(view({2, 3}, {3, 1}), false).runs().size() == 1, "a dense view is one run");
    check(footprintOf(view({3, 2}, {1, 3}), false).runs().size() == 1, "a transposed view is one run");
    check(footprintOf(view({2, 3}, {8, 1}), true).bounds().end == 24, "strides are ignored where that is asked for");
    check(footprintOf(view({2, 0}, {1, 1}), false).isEmpty(), "a view without elements touches nothing");
    check(footprintOf(view({2, 3}, {-3, 1}), false).isEmpty(), "nothing is said of negative strides");
}

void footprintsOfManyRows() {
    // 10000 rows of 4 bytes, 8 apart: only the first are kept, but the end is known.
    Footprint rows = footprintOf(view({10000, 1}, {2, 1}), false);
    check(!rows.complete() && rows.bounds().end == 9999 * 8 + 4, "a view of too many runs");
    check(!rows.overlap(Footprint(4, 4)) && rows.overlap(Footprint(8, 1)), "its first runs are exact");
    check(!rows.overlap(Footprint(9000 * 8, 4)), "of the others nothing is claimed");
    check(Footprint(0, 80000).covers(rows) && !Footprint(0, 79000).covers(rows), "covering it takes all of it");
    Footprint copied = Footprint::rows(16, 4, 8, 10000);
    check(!copied.complete() && copied.bounds().begin == 16 && copied.bounds().end == 16 + 9999 * 8 + 4, "many rows of a copy");
    check(Footprint::rows(16, 8, 8, 10000).runs().size() == 1, "rows without gaps are one run");
}

Footprint randomFootprint(size_t room) {
    std::vector<Range> ranges;
    for (size_t i = draw(5); i-- > 0;) {
        size_t begin = draw(room);
        ranges.push_back({begin, begin + draw(6)});
    }
    return Footprint::of(std::move(ranges));
}

void overlaps() {
    for (int round = 0; round < 20000; ++round) {
        Footprint a = randomFootprint(40), b = randomFootprint(40);
        Bytes as = bytesOf(a), bs = bytesOf(b);
        auto common = a.overlap(b);
        check(common.has_value() == meet(as, bs), "overlap of footprints");
        if (common) check(as.count(common->begin) && bs.count(common->begin), "both touch the overlap");
        bool covers = true;
        for (size_t at : bs) covers = covers && as.count(at);
        check(a.covers(b) == covers, "covering of footprints");
    }
}

void written() {
    for (int round = 0; round < 500; ++round) {
        WrittenBytes bytes, other;
        Bytes expected, otherExpected;
        for (int step = 0; step < 20; ++step) {
            Range range{draw(60), 0};
            range.end = range.begin + draw(9);
            if (step % 5 == 4) {  // a copy from one to the other, or within one
                size_t to = draw(50);
                Bytes source = step % 2 ? expected : otherExpected;
                bytes.copy(step % 2 ? bytes : other, range, to);
                for (size_t i = 0; i < range.end - range.begin; ++i) {
                    if (source.count(range.begin + i)) {
                        expected.insert(to + i);
                    } else {
                        expected.erase(to + i);
                    }
                }
            } else {
                (step % 2 ? bytes : other).add(range);
                for (size_t at = range.begin; at < range.end; ++at) (step % 2 ? expected : otherExpected).insert(at);
            }
            Range asked{draw(60), 0};
            asked.end = asked.begin + draw(15);
            std::optional<size_t> gap;
            bool any = false;
            for (size_t at = asked.end; at-- > asked.begin;) {
                if (!expected.count(at)) gap = at;
                any = any || expected.count(at);
            }
            check(bytes.firstGap(asked) == gap, "the first byte that nobody wrote");
            check(bytes.any(asked) == any, "some byte was written");
        }
    }
    WrittenBytes all;
    all.addEverything();
    check(!all.firstGap(Range{0, 1000}) && all.any({5, 6}), "memory of which nothing is known counts as written");
}

Access access(Epoch epoch, bool writes, Footprint where, uint64_t number) {
    auto actor = std::make_shared<Actor>();
    actor->number = number;
    return {std::move(where), writes, false, epoch, actor, "", nullptr};
}

size_t conflicts(const AccessHistory &history, const Access &access, const Clock &known) {
    size_t found = 0;
    history.check(access, known, [&](const Access &, Range) { ++found; });
    return found;
}

void histories() {
    Clock nothing, afterFirst;
    afterFirst.advance({1, 5});
    AccessHistory history;
    history.add(access({1, 5}, true, Footprint(0, 64), 1), nothing);
    check(conflicts(history, access({2, 1}, false, Footprint(60, 8), 2), nothing) == 1, "a read beside a write");
    check(conflicts(history, access({2, 1}, false, Footprint(64, 8), 2), nothing) == 0, "a read of other bytes");
    check(conflicts(history, access({2, 1}, true, Footprint(0, 8), 2), afterFirst) == 0, "a write after an event");
    check(conflicts(history, access({1, 6}, true, Footprint(0, 8), 2), nothing) == 0, "one stream is in order");
    history.add(access({2, 1}, false, Footprint(0, 64), 2), afterFirst);
    check(history.all().size() == 2, "a read makes no write redundant");
    Clock afterBoth = afterFirst;
    afterBoth.advance({2, 1});
    history.add(access({3, 1}, true, Footprint(0, 64), 3), afterBoth);
    check(history.all().size() == 1, "a write makes what it covers and comes after redundant");
    history.add(access({4, 1}, true, Footprint(0, 32), 4), nothing);
    check(history.all().size() == 2, "but not what it does not come after");
    history.forget(afterBoth);
    check(history.all().size() == 2, "what not everybody knows is kept");
    afterBoth.advance({3, 1});
    history.forget(afterBoth);
    check(history.all().size() == 1, "what everybody knows is forgotten");
    for (uint64_t i = 0; i < 5000; ++i) history.add(access({5, i + 1}, false, Footprint(i, 1), i), nothing);
    check(history.all().size() <= 256, "a history stays bounded");
}

void clocks() {
    Clock a, b;
    a.advance({1, 3});
    a.advance({1, 2});
    b.advance({2, 7});
    check(a.at(1) == 3 && a.covers({1, 3}) && !a.covers({1, 4}) && !a.covers({2, 1}), "a clock only goes forwards");
    Clock both = a;
    both.join(b);
    check(both.at(1) == 3 && both.at(2) == 7 && both.at(9) == 0, "joined clocks know what either knew");
    both.meet(a);
    check(both.at(1) == 3 && both.at(2) == 0, "clocks that meet know what both knew");
}

}  // namespace

int main() {
    clocks();
    footprintsOfViews();
    footprintsOfManyRows();
    overlaps();
    written();
    histories();
    return failures == 0 ? 0 : 1;
}
