"""Which CANN is found, what of it belongs together, and what the report says about the rest."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from cann_mla import discovery
from cann_mla.discovery import Search, installed_version, release_key


@pytest.fixture(autouse=True)
def no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "DEFAULT_HOMES", ())


def tree(home: Path, *names: str) -> Path:
    for name in names:
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return home


FULL = ("lib64/libascendcl.so", "lib64/libnnopbase.so", "lib64/libopapi.so")


def outcome(search: Search, place: str) -> str:
    return next(a.outcome for a in search.attempts if a.place.startswith(place))


def test_releases_sort_as_they_came() -> None:
    released = [
        "8.1.RC1",
        "8.2",
        "8.5.0.alpha001",
        "8.5.0-beta.1",
        "8.5.0.beta2",
        "8.5.0.RC1",
        "8.5.0",
        "8.5.1",
        "9.1.0",
    ]
    assert sorted(released[4:] + released[:4], key=release_key) == released
    assert release_key("8.5") == release_key("8.5.0")
    with pytest.raises(ValueError, match="no CANN release"):
        release_key("latest")


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("version.cfg", "# version: 1.0\nruntime_running_version=[7.7.0.1.238:8.1.RC1]\n", "8.1.RC1"),
        ("version.cfg", "toolkit_running_version=[8.5.0]\n", "8.5.0"),
        (f"{platform.machine()}-linux/ascend_toolkit_install.info", "package_name=x\nversion=8.3.RC2\n", "8.3.RC2"),
        ("opp/version.info", "Version=7.7.0.1.238\nversion_dir=8.1.RC1\n", "8.1.RC1"),
        ("share/info/opbase/version.info", "Version=9.1.0\n", "9.1.0"),
    ],
)
def test_version_is_read_from_the_files_packages_leave(tmp_path: Path, file: str, text: str, version: str) -> None:
    assert installed_version(tmp_path) is None
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert installed_version(tmp_path) == version


def test_home_path_comes_before_toolkit_home(tmp_path: Path) -> None:
    first, second = tree(tmp_path / "a", *FULL), tree(tmp_path / "b", *FULL)
    search = Search({"ASCEND_TOOLKIT_HOME": str(second), "ASCEND_HOME_PATH": str(first)})
    assert [found.home for found in search.installations()] == [first, second]


def test_one_folder_under_two_names_is_one_installation(tmp_path: Path) -> None:
    home = tree(tmp_path / "8.1", *FULL)
    (tmp_path / "latest").symlink_to(home)
    search = Search({"ASCEND_TOOLKIT_HOME": str(home), "ASCEND_HOME_PATH": str(tmp_path / "latest")})
    assert len(search.installations()) == 1


def test_refusals_say_what_is_missing(tmp_path: Path) -> None:
    home = tree(tmp_path / "half", "lib64/libascendcl.so")
    search = Search({"ASCEND_HOME_PATH": str(tmp_path / "gone"), "ASCEND_TOOLKIT_HOME": str(home)})
    assert search.installations() == []
    assert outcome(search, str(tmp_path / "gone")) == "no such folder"
    said = outcome(search, str(home))
    assert "no libnnopbase.so" in said
    assert "no libopapi_transformer.so or libopapi.so" in said
    assert "(ASCEND_TOOLKIT_HOME)" in next(a.place for a in search.attempts if a.place.startswith(str(home)))


def test_unset_variables_are_reported() -> None:
    search = Search({})
    assert search.installations() == []
    assert [str(a) for a in search.attempts] == ["ASCEND_HOME_PATH: not set", "ASCEND_TOOLKIT_HOME: not set"]


def test_named_home_is_the_only_place(tmp_path: Path) -> None:
    other, home = tree(tmp_path / "other", *FULL), tree(tmp_path / "home", *FULL)
    search = Search({"ASCEND_HOME_PATH": str(other)}, home=home)
    assert [found.home for found in search.installations()] == [home]


def test_newer_runtime_is_preferred(tmp_path: Path) -> None:
    home = tree(tmp_path, *FULL, "lib64/libacl_rt.so")
    assert Search({}, home=home).installations()[0].runtime.name == "libacl_rt.so"


def test_families_of_operator_libraries_are_never_mixed(tmp_path: Path) -> None:
    home = tree(tmp_path, *FULL, "lib64/libopapi_transformer.so", "lib64/libopapi_math.so", "lib64/libopapi_nn.so")
    found = Search({}, home=home).installations()[0]
    assert [path.name for path in found.operators] == ["libopapi_math.so", "libopapi_nn.so", "libopapi_transformer.so"]


def test_aggregate_is_taken_where_there_is_no_transformer_library(tmp_path: Path) -> None:
    home = tree(tmp_path, *FULL, "lib64/libopapi_math.so")
    found = Search({}, home=home).installations()[0]
    assert [path.name for path in found.operators] == ["libopapi.so"]


def test_aggregate_in_the_operator_package_of_8_1(tmp_path: Path) -> None:
    place = f"{discovery.OP_API}/lib/linux/{platform.machine()}/libopapi.so"
    home = tree(tmp_path, "lib64/libascendcl.so", "lib64/libnnopbase.so", place)
    assert Search({}, home=home).installations()[0].operators == (home / place,)


def test_link_stubs_are_not_libraries_to_run_with(tmp_path: Path) -> None:
    home = tree(tmp_path, *(name.replace("lib64", f"{platform.machine()}-linux/devlib") for name in FULL))
    assert Search({}, home=home).installations() == []


def test_custom_packages_in_order_of_priority(tmp_path: Path) -> None:
    library = "op_api/lib/libcust_opapi.so"
    home = tree(tmp_path / "cann", *FULL, f"opp/vendors/b/{library}", f"opp/vendors/c/{library}")
    (home / "opp/vendors/config.ini").write_text("load_priority=c, b,absent\n")
    first = tree(tmp_path / "first", library)
    search = Search({"ASCEND_CUSTOM_OPP_PATH": f"{first}:{tmp_path / 'none'}"}, home=home)
    found = search.installations()[0]
    assert [path.parents[2].name for path in found.custom] == ["first", "c", "b"]
    assert "refused" in outcome(search, str(tmp_path / "none"))
    assert "refused" in outcome(search, str(home / "opp/vendors/absent"))


def test_opp_path_names_another_place_for_vendors(tmp_path: Path) -> None:
    library = "op_api/lib/libcust_opapi.so"
    home = tree(tmp_path / "cann", *FULL)
    opp = tree(tmp_path / "opp", f"vendors/v/{library}")
    (opp / "vendors/config.ini").write_text("load_priority=v\n")
    found = Search({"ASCEND_OPP_PATH": str(opp)}, home=home).installations()[0]
    assert [path.parents[2].name for path in found.custom] == ["v"]


def test_headers_of_custom_packages_come_first(tmp_path: Path) -> None:
    home = tree(tmp_path / "cann", *FULL, "include/aclnnop/a.h", f"{discovery.OP_API}/include/aclnnop/a.h")
    package = tree(tmp_path / "p", "op_api/lib/libcust_opapi.so", "op_api/include/b.h")
    found = Search({"ASCEND_CUSTOM_OPP_PATH": str(package)}, home=home).installations()[0]
    assert found.includes == (package / "op_api/include", home / "include", home / discovery.OP_API / "include")


def test_atb_is_named_by_its_variable(tmp_path: Path) -> None:
    home = tree(tmp_path / "cann", *FULL)
    atb = tree(tmp_path / "atb", "lib/libatb.so")
    found = Search({"ATB_HOME_PATH": str(atb)}, home=home).installations()[0]
    assert found.extras == (atb / "lib/libatb.so",)


def test_atb_is_found_in_its_default_folder_too(tmp_path: Path) -> None:
    home = tree(tmp_path / "cann", *FULL)
    nnal = tmp_path / "nnal"
    for place in ("8.3.RC1/atb/cxx_abi_1", "8.5.0/atb/cxx_abi_0", "8.5.0/atb/cxx_abi_1", "9.0.0/atb/cxx_abi_1"):
        (nnal / place).mkdir(parents=True)
    for place in ("8.3.RC1/atb/cxx_abi_1", "8.5.0/atb/cxx_abi_0", "8.5.0/atb/cxx_abi_1"):
        tree(nnal / place, "lib/libatb.so", "include/atb/atb_acl.h")
    search = Search({}, home=home, atb_folder=nnal)
    (found,) = search.installations()
    assert found.extras == (nnal / "8.5.0/atb/cxx_abi_1/lib/libatb.so",)
    assert found.includes == (nnal / "8.5.0/atb/cxx_abi_1/include",)
    assert outcome(search, str(nnal / "9.0.0")).startswith("refused")
    nothing = Search({}, home=home, atb_folder=tmp_path / "no such folder")
    assert nothing.installations()[0].extras == ()
    assert outcome(nothing, str(tmp_path / "no such folder")) == "no ATB, so none of its operators"
