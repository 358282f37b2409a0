"""Targets as programs write them."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import TileTypeError, TileValueError
from tilelang.target import Target, device as device_module, parse_target


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "cuda_devices", lambda: ())
    monkeypatch.setattr(device_module, "has_hip", lambda: False)
    monkeypatch.setattr(device_module, "has_metal", lambda: False)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "cuda_devices", lambda: ("sm_90", "sm_80"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("cpu", Target("cpu")),
        ("c", Target("cpu")),
        ("llvm", Target("cpu")),
        ("LLVM -mcpu=native", Target("cpu", options=(("mcpu", "native"),))),
        ("cuda -arch=sm_80", Target("cuda", "sm_80")),
        ("cuda -arch sm_90a", Target("cuda", "sm_90a")),
        ("cuda -arch=compute_100a -keys=cuda,gpu", Target("cuda", "sm_100a", ("gpu",))),
        ("hip -mcpu=gfx942", Target("hip", "gfx942")),
        ("llvm -opt-level 3 -mattr=+avx2,+fma",
         Target("cpu", options=(("mattr", "+avx2,+fma"), ("opt-level", "3")))),
        ('{"kind": "cuda", "arch": "sm_90a", "tag": ""}',
         Target("cuda", "sm_90a", options=(("tag", ""),))),
        ("metal", Target("metal")),
        ("webgpu", Target("webgpu")),
        ({"kind": "cuda", "arch": "sm_90a"}, Target("cuda", "sm_90a")),
        ({"kind": "cuda", "arch": "8.0", "keys": ["gpu"]}, Target("cuda", "sm_80", ("gpu",))),
        (Target("cpu"), Target("cpu")),
        (SimpleNamespace(kind=SimpleNamespace(name="cuda"), arch="sm_75"), Target("cuda", "sm_75")),
        (SimpleNamespace(kind=SimpleNamespace(name="llvm")), Target("cpu")),
    ],
)  # fmt: skip
def test_spelling_is_understood(spec: object, expected: Target) -> None:
    assert parse_target(spec) == expected


def test_cuda_without_architecture_takes_the_machines(hopper: None) -> None:
    assert parse_target("cuda") == Target("cuda", "sm_90")
    assert parse_target("cutedsl") == Target("cuda", "sm_90", ("cutedsl",))


def test_cuda_without_gpu_has_no_architecture(no_gpu: None) -> None:
    assert parse_target("cuda") == Target("cuda")


def test_auto_without_arguments_detects_the_machine(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_target("auto") == Target("cpu")
    monkeypatch.setattr(device_module, "has_hip", lambda: True)
    assert parse_target("auto") == Target("hip")
    monkeypatch.setattr(device_module, "cuda_devices", lambda: ("sm_89",))
    assert parse_target("auto") == Target("cuda", "sm_89")


def test_auto_follows_host_arrays_even_with_a_gpu(hopper: None) -> None:
    assert parse_target("auto", [np.zeros(3)]) == Target("cpu")
    assert parse_target("auto", [3, [np.zeros(3)]]) == Target("cpu")
    assert parse_target("auto", [3, 4.0]) == Target("cuda", "sm_90")
    torch = pytest.importorskip("torch", reason="torch tensors decide the target, too")
    assert parse_target("auto", [torch.zeros(3)]) == Target("cpu")


def test_auto_follows_the_device_of_a_dlpack_object(hopper: None) -> None:
    on_gpu = SimpleNamespace(__dlpack_device__=lambda: (2, 1))
    assert parse_target("auto", [np.zeros(3), on_gpu]) == Target("cuda", "sm_80")


def test_none_is_the_default_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda -arch=sm_86")
    assert parse_target(None) == Target("cuda", "sm_86")


@pytest.mark.parametrize(
    ("spec", "name", "shown", "hint"),
    [
        ("cuda -arhc=sm_90a", "arhc", "'cuda -arhc=sm_90a'", "\n  hint: did you mean 'arch'?"),
        ({"kind": "hip", "xyzzy": 3}, "xyzzy", "{'kind': 'hip', 'xyzzy': 3} (dict)", ""),
        ('{"kind": "cpu", "tga": 1}', "tga", "{'kind': 'cpu', 'tga': 1} (dict)",
         "\n  hint: did you mean 'tag'?"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_refused(spec: object, name: str, shown: str, hint: str) -> None:
    assert refusal(TileValueError, parse_target, spec) == (
        f"{name!r} is not an option of a target\n"
        '  expected: "arch" or "keys"; other options of TVM, such as "mcpu", are ignored\n'
        f"  got: {shown}{hint}"
    )


def test_unknown_name_lists_what_is_accepted() -> None:
    assert refusal(TileValueError, parse_target, "cude -arch=sm_80") == (
        "unknown target 'cude'\n"
        '  expected: "auto", "cpu" ("c", "llvm"), "cuda", "hip", "metal", "webgpu", "cutedsl"; '
        'with an architecture as "cuda -arch=sm_80" or {"kind": "cuda", "arch": "sm_80"}; '
        "or a Target\n"
        "  got: 'cude -arch=sm_80'\n"
        "  hint: did you mean 'cuda'?"
    )


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("gpu", 'name the kind of GPU, e.g. "cuda"; "auto" follows the tensors of a call'),
        ("sm_90", 'did you mean "cuda -arch=sm_90"?'),
        ("gfx942", 'did you mean "hip -arch=gfx942"?'),
        ("cuda:1", "a target is a kind of machine; a kernel runs on the device of its tensors"),
    ],
)
def test_a_common_mistake_gets_a_hint(spec: str, hint: str) -> None:
    with pytest.raises(TileValueError) as found:
        parse_target(spec)
    assert str(found.value).splitlines()[0] == f"unknown target {spec!r}"
    assert str(found.value).splitlines()[-1] == f"  hint: {hint}"


def test_a_number_that_no_gpu_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.target.device.cuda_devices", lambda: ())
    assert refusal(TileValueError, parse_target, "cuda -arch=sm_999") == (
        "there is no CUDA architecture sm_999\n"
        "  expected: sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_101, sm_103, "
        "sm_110, sm_120, sm_121\n"
        "  got: 'cuda -arch=sm_999'"
    )
    monkeypatch.setattr("tilelang.target.device.cuda_devices", lambda: ("sm_999",))
    assert parse_target("cuda -arch=sm_999").compute == (99, 9)


@pytest.mark.parametrize(
    "spec", ["", "cuda arch=sm_80", "cuda -arch=turing", "{", {"arch": "sm_80"}]
)
def test_malformed_target_is_refused(spec: object) -> None:
    with pytest.raises(TileValueError):
        parse_target(spec)


def test_object_that_is_no_target_is_refused() -> None:
    with pytest.raises(TileTypeError, match="this is not a target"):
        parse_target(3)


def test_text_of_a_target_gives_it_back() -> None:
    for text in ("cpu", "cuda -arch=sm_90a", "cuda -arch=sm_80 -keys=cutedsl", "hip -arch=gfx942"):
        target = parse_target(text)
        assert str(target) == text
        assert parse_target(str(target)) == target
        assert pickle.loads(pickle.dumps(target)) == target


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("cuda -arch=sm_75", 64), ("cuda -arch=sm_80", 163), ("cuda -arch=sm_86", 99),
        ("cuda -arch=sm_90a", 227), ("cuda -arch=sm_120", 99), ("hip -arch=gfx942", 64),
        ("hip -arch=gfx950", 160), ("metal", 32), ("webgpu", 16),
    ],
)  # fmt: skip
def test_shared_memory_of_a_block(text: str, shared: int) -> None:
    assert parse_target(text).limits.shared_block == shared * 1024


def test_cores_have_the_names_of_compilers() -> None:
    assert parse_target("cpu -arch=x86-64-v3") == Target("cpu", "x86-64-v3")
    assert refusal(TileValueError, parse_target, "cpu -arch=sm_80") == (
        "'sm_80' is not the name of a CPU\n"
        "  expected: x86-64, x86-64-v2, nehalem, sandybridge, x86-64-v3, haswell, skylake, "
        "alderlake, znver1, znver2, znver3, x86-64-v4, skylake-avx512, cascadelake, "
        "icelake-server, sapphirerapids, znver4, znver5, armv8-a, armv8.2-a, armv9-a, neoverse-v1, a64fx\n"
        "  got: 'cpu -arch=sm_80'\n"
        '  hint: "cpu" alone builds for this machine'
    )
