"""AtbMLA and AtbMLAPreFill: values by hand, the dense formula, and identities between modes."""

from typing import Any

import numpy as np
import pytest

from cann_mla.dtypes import BF16, Array
from cann_mla.reference.atb_mla import mla
from cann_mla.reference.atb_mla_prefill import mla_prefill
from cann_mla.reference.ring_mla import merge, ring_mla

SCALE = 1 / 24


def operands(contexts: list[int], tokens: int = 1, heads: int = 8, kind: Any = BF16.numpy) -> dict[str, Any]:
    rng = np.random.default_rng(sum(contexts) * 31 + tokens)
    count, pages = len(contexts) * tokens, max(1, -(-max(contexts) // 128))
    blocks = len(contexts) * pages + 2
    return {
        "q_nope": rng.standard_normal((count, heads, 512)).astype(kind),
        "q_rope": rng.standard_normal((count, heads, 64)).astype(kind),
        "ct_kv": rng.standard_normal((blocks, 128, 1, 512)).astype(kind),
        "k_rope": rng.standard_normal((blocks, 128, 1, 64)).astype(kind),
        "block_tables": rng.permutation(blocks)[: len(contexts) * pages].reshape(-1, pages).astype(np.int32),
        "context_lens": np.array(contexts, np.int32),
        "head_num": heads,
        "qk_scale": SCALE,
        **({"calc_type": 1, "q_seq_len": np.full(len(contexts), tokens, np.int32)} if tokens > 1 else {}),
    }


def quantised(contexts: list[int], tokens: int = 1, heads: int = 8) -> dict[str, Any]:
    """Cache mode 2."""
    given, rng = operands(contexts, tokens, heads), np.random.default_rng(3)
    given["q_nope"] = rng.integers(-100, 101, given["q_nope"].shape, np.int8)
    given["ct_kv"] = blocked(rng.integers(-100, 101, given["ct_kv"].shape, np.int8), 32)
    given["k_rope"] = blocked(given["k_rope"], 16)
    scales = {name: ((rng.random(heads) + 0.5) * 2e-4).astype(np.float32) for name in ("qk_descale", "pv_descale")}
    return {**given, **scales, "cache_mode": 2}


def blocked(cache: Array, c0: int) -> Array:
    """Element (block b, row r, channel c) moved to ((b * D / c0 + c // c0) * 128 + r) * c0 + c % c0."""
    count, rows, _, width = cache.shape
    b, r, c = np.ogrid[:count, :rows, :width]
    moved = np.empty(cache.size, cache.dtype)
    moved[((b * (width // c0) + c // c0) * rows + r) * c0 + c % c0] = cache[:, :, 0]
    return moved.reshape(count, width // c0, rows, c0)


def dense(given: dict[str, Any], sequence: int, token: int, seen: int) -> tuple[Array, Array]:
    """The formula for one token that sees the first keys of its sequence, in float64."""
    row = np.arange(seen)
    page = given["block_tables"][sequence][row // 128]
    latent, rotated = (given[name][page, row % 128, 0].astype(np.float64) for name in ("ct_kv", "k_rope"))
    query, rope = (given[name][token].astype(np.float64) for name in ("q_nope", "q_rope"))
    scores = (query @ latent.T + rope @ rotated.T) * SCALE
    powers = np.exp(scores)
    return powers @ latent / powers.sum(1, keepdims=True), np.log(powers.sum(1))


def test_equal_scores_average_the_keys_by_hand() -> None:
    given = operands([3])
    given["q_nope"], given["q_rope"] = given["q_nope"] * 0, given["q_rope"] * 0
    page = given["block_tables"][0, 0]
    given["ct_kv"][page, :3, 0] = np.array([1, 2, 6])[:, None]
    result = mla(**given)
    np.testing.assert_array_equal(result.atten_out.astype(float), 3)
    np.testing.assert_allclose(result.lse.astype(float), np.log(3), rtol=2**-8)


@pytest.mark.parametrize("heads", [8, 128])
def test_pages_follow_the_block_table(heads: int) -> None:
    given = operands([5, 300, 128], heads=heads)
    result = mla(**given, precision="exact")
    for token, seen in enumerate((5, 300, 128)):
        output, lse = dense(given, token, token, seen)
        np.testing.assert_allclose(result.atten_out[token], output, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result.lse[token, :, 0], lse, rtol=1e-10)


def test_device_precision_stays_near_exact() -> None:
    given = operands([700, 40])
    device, exact = mla(**given), mla(**given, precision="exact")
    assert device.atten_out.dtype == device.lse.dtype == BF16.numpy
    np.testing.assert_allclose(device.atten_out.astype(float), exact.atten_out, atol=2**-7, rtol=2**-7)


def test_blocked_caches_hold_the_same() -> None:
    given = operands([130, 7])
    nz = {**given, "ct_kv": blocked(given["ct_kv"], 16), "k_rope": blocked(given["k_rope"], 16), "cache_mode": 3}
    np.testing.assert_array_equal(mla(**nz).atten_out, mla(**given).atten_out)


def test_without_mask_every_new_token_sees_all_keys() -> None:
    given = operands([20], tokens=3)
    result = mla(**given, precision="exact")
    np.testing.assert_allclose(result.atten_out[0], dense(given, 0, 0, 20)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("contexts", [[4, 300], [128, 129], [130, 131], [257, 258]])
def test_mask_free_template_hides_later_tokens(contexts: list[int]) -> None:
    given = operands(contexts, tokens=4)
    rows, columns = np.arange(125 + 2 * 4)[:, None], np.arange(128)
    template = np.where(columns >= rows + 2 - 4, -10000, 0).astype(BF16.numpy)
    result = mla(**given, mask=template, mask_type=2, precision="exact")
    for token in range(8):
        seen = contexts[token // 4] - 3 + token % 4
        output, lse = dense(given, token // 4, token, seen)
        np.testing.assert_allclose(result.atten_out[token], output, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result.lse[token, :, 0], lse, rtol=1e-10)


def test_spec_mask_is_added_a_token() -> None:
    given = operands([6, 200], tokens=2)
    mask = np.zeros((4, 200), BF16.numpy)
    mask[0, 5], mask[2, 150:] = -10000, -10000
    result = mla(**given, mask=mask, mask_type=1, precision="exact")
    for token, seen in enumerate((5, 6, 150, 200)):
        np.testing.assert_allclose(result.atten_out[token], dense(given, token // 2, token, seen)[0], atol=1e-12)


def test_128_heads_hide_later_tokens_without_a_mask() -> None:
    given = operands([140], tokens=3, heads=128)
    result = mla(**given, precision="exact")
    for token in range(3):
        np.testing.assert_allclose(result.atten_out[token], dense(given, 0, token, 138 + token)[0], atol=1e-12)


def test_int8_with_one_key_by_hand() -> None:
    given = quantised([1])
    page = given["block_tables"][0, 0]
    latent = given["ct_kv"][page, :, 0].reshape(-1).astype(np.float64)
    rotated = given["k_rope"][page, :, 0].reshape(-1).astype(np.float64)
    result = mla(**given)
    integer = given["q_nope"][0].astype(np.int64) @ latent.astype(np.int64)
    score = SCALE * (integer * given["qk_descale"] + given["q_rope"][0].astype(np.float64) @ rotated)
    # The only numerator is 1, quantised to 127 and taken back by a factor of 1 / 127.
    np.testing.assert_allclose(result.lse[0, :, 0], score, rtol=1e-5)
    want = given["pv_descale"][:, None] * latent
    np.testing.assert_allclose(result.atten_out[0].astype(float), want, rtol=2**-8)


def test_int8_numerators_are_multiples_of_a_127th_of_the_largest() -> None:
    given = quantised([2], heads=8)
    given["q_nope"] *= 0
    given["q_rope"] = given["q_rope"] * 0
    given["k_rope"] = given["k_rope"] * 0
    given["q_rope"][:, :, 0] = 1
    page = given["block_tables"][0, 0]
    # Scores 0 and -1: numerators 1 and 0.36788, of which the second becomes 47 / 127 (46.72 rounded).
    given["k_rope"][page, 0, 1, 0] = -24
    given["ct_kv"][page, :, 0], given["ct_kv"][page, :, 1] = 0, 100
    result = mla(**given)
    want = 100 * 47 / 127 / (1 + np.exp(-1)) * given["pv_descale"]
    np.testing.assert_allclose(result.atten_out[0, :, 0].astype(float), want, rtol=2**-8)
    exact = mla(**given, precision="exact")
    np.testing.assert_allclose(exact.atten_out[0, :, 0], 100 / (1 + np.e) * given["pv_descale"], rtol=1e-6)


@pytest.mark.parametrize(("heads", "tokens", "pages"), [(8, 1, 1), (128, 1, 4), (8, 2, 4)])
def test_int8_scales_are_those_of_a_page_or_of_four(heads: int, tokens: int, pages: int) -> None:
    # 128 keys of one page score 0 and have the value 100; one of the next scores 5.
    given = quantised([128 + tokens], tokens, heads)
    given["q_nope"][...], given["ct_kv"][...], given["q_rope"][...], given["k_rope"][...] = 0, 0, 0, 0
    first, second = given["block_tables"][0]
    given["q_rope"][:, :, 0], given["k_rope"][second, 0, 0, 0] = 1, 120
    given["ct_kv"][first, :, :, 0] = 100
    got = mla(**given).atten_out[0, :, 0].astype(float)
    # By themselves the 128 numerators are 127 each; next to the one that is e^5 as large, 0.86, which rounds to 1.
    numerator = np.exp(-5) if pages == 1 else 1 / 127
    np.testing.assert_allclose(got, 12800 * numerator / (128 * np.exp(-5) + 1) * given["pv_descale"], rtol=2**-8)


def test_several_int8_tokens_hide_later_ones() -> None:
    given = quantised([130], tokens=3)
    result = mla(**given)
    for token in range(3):
        one = {n: v[token : token + 1] if n.startswith("q_") else v for n, v in given.items() if n != "q_seq_len"}
        one |= {"context_lens": np.array([128 + token], np.int32), "calc_type": 2, "qk_scale": SCALE}
        alone = mla(**one)
        np.testing.assert_allclose(result.lse[token], alone.lse[0], rtol=1e-6)
        np.testing.assert_allclose(result.atten_out[token].astype(float), alone.atten_out[0].astype(float), atol=1e-4)


def test_two_halves_of_the_keys_merge_by_their_lse() -> None:
    given = operands([256], tokens=1)
    whole = mla(**given, precision="exact")
    halves = [
        mla(**{**given, "block_tables": given["block_tables"][:, i : i + 1], "context_lens": np.array([128], np.int32)},
            precision="exact")
        for i in (0, 1)
    ]  # fmt: skip
    output, lse = merge(halves[0].atten_out, halves[0].lse[..., 0], halves[1].atten_out, halves[1].lse[..., 0])
    np.testing.assert_allclose(output, whole.atten_out, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lse, whole.lse[..., 0], rtol=1e-10)


def test_rows_of_a_sequence_without_keys_keep_what_they_have() -> None:
    given = operands([0, 9])
    result = mla(**given)
    assert (result.atten_out[0] == 0).all()
    before = {"atten": np.full((2, 8, 512), 7, BF16.numpy), "lse": np.full((2, 8, 1), -3, BF16.numpy)}
    kept = mla(**given, **before)
    assert (kept.atten_out[0] == 7).all()
    assert (kept.lse[0] == -3).all()
    np.testing.assert_array_equal(kept.atten_out[1], result.atten_out[1])
    assert (result.atten_out[1] != 0).any()
    with pytest.raises(ValueError, match="lse has shape"):
        mla(**given, lse=np.zeros((2, 8), BF16.numpy))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"calc_type": 4}, NotImplementedError, "AtbMLAPreFill"),
        ({"cache_mode": 0}, ValueError, "cacheMode"),
        ({"cache_mode": 2}, ValueError, "qkDescale"),
        ({"head_num": 16}, ValueError, "headNum"),
        ({"mask_type": 1}, ValueError, "needs a mask"),
        ({"calc_type": 1}, ValueError, "qSeqLen"),
        ({"context_lens": np.array([300], np.int32)}, ValueError, "blocks"),
        ({"block_tables": np.array([[99]], np.int32)}, ValueError, "blocks"),
    ],
)
def test_contradicting_operands_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mla(**{**operands([9]), **change})


# ---- AtbMLAPreFill --------------------------------------------------------------------------------


def prompts(kind: Any) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    shapes = {"q": 128, "q_rope": 64, "k": 128, "k_rope": 64, "v": 128}
    given: dict[str, Any] = {n: rng.standard_normal((50, 4, w)).astype(kind) for n, w in shapes.items()}
    lengths = np.array([30, 20], np.int32)
    mask = np.triu(np.full((512, 512), -10000 if kind == np.float16 else 1, np.float32), 1).astype(kind)
    return {**given, "q_seq_len": lengths, "kv_seq_len": lengths, "mask": mask, "head_num": 4, "qk_scale": SCALE}


@pytest.mark.parametrize("kind", [np.float16, BF16.numpy])
@pytest.mark.parametrize("mask_type", [0, 2])
def test_prefill_is_a_first_ring_without_lse(kind: Any, mask_type: int) -> None:
    given = prompts(kind)
    names = {"query_split1": "q", "query_split2": "q_rope", "key_split1": "k", "key_split2": "k_rope", "value": "v"}
    ring = ring_mla(
        **{ring_name: given[name] for ring_name, name in names.items()},
        seq_len=given["q_seq_len"],
        mask=given["mask"],
        head_num=4,
        qk_scale=SCALE,
        mask_type=mask_type // 2,
        calc_type=1,
    )
    np.testing.assert_array_equal(mla_prefill(**given, mask_type=mask_type), ring.output)


def test_prefill_finds_the_keys_of_a_prompt_right_behind_those_of_the_one_before() -> None:
    # By their shape, (2, 40, 512), 40 rows a prompt; ATB's tiling does not look at the 40 and goes on by the lengths.
    given = prompts(BF16.numpy)
    want = mla_prefill(**given, mask_type=2)
    for name in ("k", "k_rope", "v"):
        rows = np.zeros((80, *given[name].shape[1:]), BF16.numpy)
        rows[:50] = given[name]
        given[name] = rows.reshape(2, 40, -1)
    given |= {name: given[name].reshape(50, -1) for name in ("q", "q_rope")}
    np.testing.assert_array_equal(mla_prefill(**given, mask_type=2), want.reshape(50, -1))


def test_prefill_finds_padded_keys_where_the_first_size_says_so() -> None:
    # 20 and 30 tokens: padded, the second prompt begins at row 30, not 20.
    given = prompts(BF16.numpy)
    given["q_seq_len"] = given["kv_seq_len"] = np.array([20, 30], np.int32)
    want = mla_prefill(**given, mask_type=2)
    for name in ("k", "k_rope", "v"):
        padded = np.zeros((60, *given[name].shape[1:]), BF16.numpy)
        padded[:20], padded[30:] = given[name][:20], given[name][20:]
        given[name] = padded
    np.testing.assert_array_equal(mla_prefill(**given, mask_type=2), want)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mask_type": 3}, NotImplementedError, "maskType"),
        ({"kv_seq_len": np.array([30, 19], np.int32)}, ValueError, "must be equal"),
        ({"kv_head_num": 2}, ValueError, "kvHeadNum"),
        ({name: np.array([30, 21], np.int32) for name in ("q_seq_len", "kv_seq_len")}, ValueError, "do not fit"),
        ({"head_num": 3}, ValueError, "heads"),
    ],
)
def test_prefill_refuses_contradictions(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mla_prefill(**{**prompts(BF16.numpy), **change})
