"""Writing in place as NumPy's users do: views that alias, out=, masks, and the caller's arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minicc
from minicc.compile.compiler import lower
from minicc.ir.program import launches

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compare(f: Function, *args: Any) -> None:
    """Results and the arguments afterwards are as NumPy leaves them, at two calls."""
    g = minicc.jit(f, threads=1)
    for _ in range(2):
        mine = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
        theirs = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
        got, want = g(*mine), f(*theirs)
        same(got, want)
        same(mine, theirs)


def same(got: Any, want: Any) -> None:
    if isinstance(want, (list, tuple)):
        for g, w in zip(got, want, strict=True):
            same(g, w)
    elif isinstance(want, (np.ndarray, np.generic)):
        want = np.asarray(want)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    else:
        assert got == want


def own(x: Array) -> Array:
    return x * 1


WRITES: list[Callable[[Array], Any]] = [
    lambda u: u[1:-1].__imul__(2),
    lambda u: u.T.__setitem__(0, 1),
    lambda u: u.reshape(2, 12)[1].__iadd__(3),
    lambda u: u.T.reshape(-1).__imul__(5),  # a copy: nothing happens
    lambda u: u.ravel().__setitem__(slice(3, 9, 2), 7),
    lambda u: np.ravel(u[::2]).__setitem__(0, 9),  # a copy again
    lambda u: u[:, 1].__isub__(1),
    lambda u: u[::-1, ::2].__setitem__(0, [1, 2, 3]),
    lambda u: np.moveaxis(u, 0, 1)[2:4].fill(4),
    lambda u: u[1][2:].__setitem__(0, 5),
    lambda u: np.split(u, 2)[1].__iadd__(1),
    lambda u: np.flip(u, 1)[0].__setitem__(slice(None, 2), 8),
    lambda u: np.rot90(u)[0].__imul__(3),
    lambda u: u[..., None].squeeze().T[1].__iadd__(2),
    lambda u: np.atleast_3d(u)[:, 0, 0].fill(6),
    lambda u: u.flat.__setitem__(5, 1),
    lambda u: u.T.flat.__setitem__(slice(1, 4), 2),
    lambda u: u.__setitem__([0, 2], 1),
    lambda u: u.__setitem__(([0, 1, 0], [2, 3, 2]), [5, 6, 7]),
    lambda u: u[1:].__setitem__(np.array([True, False, True]), 0),
    lambda u: u.__setitem__(u > 0.5, 0.5),
    lambda u: u.__setitem__((slice(None), u[0] > 0), -1),
    lambda u: u.__setitem__(u < 0, u[u < 0] * 2),
    lambda u: np.fill_diagonal(u, 3),
    lambda u: np.fill_diagonal(u, [1, 2]),
    lambda u: np.copyto(u, u[0], where=u > 0),
    lambda u: np.copyto(u[0], 1),
    lambda u: np.put(u, [1, -1], [5, 6]),
    lambda u: np.putmask(u, u > 0, [1, 2]),
    lambda u: np.place(u, u > 0, [1, 2]),
    lambda u: np.put_along_axis(u, np.argmax(u, axis=1)[:, None], 9, axis=1),
    lambda u: u.sort(),
    lambda u: u.sort(axis=0),
    lambda u: np.add.at(u, ([0, 0, 1], [1, 1, 2]), 1),
    lambda u: np.subtract.at(u, [0, 0], 1),
    lambda u: np.maximum.at(u, np.argmin(u, axis=0) % 2, 0.25),
    lambda u: np.add(u, 1, out=u),
    lambda u: np.multiply(u[:2], 3, out=u[2:]),
    lambda u: np.exp(u, u),
    lambda u: np.add(u, 1, out=u, where=u > 0),
    lambda u: np.sum(u, axis=0, out=u[0]),
    lambda u: np.clip(u, 0, 1, out=u),
    lambda u: u.clip(0, 1, out=u),
    lambda u: np.matmul(u[:, :4], u[:, 2:6].copy(), out=u[:, :4]),
    lambda u: u.__setitem__(slice(None), u[::-1]),
    lambda u: u.__setitem__((0, 0), u.sum()),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(WRITES)))
@pytest.mark.parametrize("whose", ["own", "argument"])
def test_writes(k: int, whose: str) -> None:
    write = WRITES[k]
    if whose == "own":

        def f(x: Array) -> Any:
            u = own(x)
            v = u[1:]
            write(u)
            return u, v + 0, u.T[2]
    else:

        def f(x: Array) -> Any:
            v = x[1:]
            write(x)
            return v + 0

    compare(f, normal(4, 6))


def test_a_stencil_as_it_is_written() -> None:
    def f(u: Array, steps: int) -> Array:
        u = u.copy()
        for _ in range(steps):
            u[1:-1, 1:-1] += 0.1 * (
                u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            )
            u[0] = u[1]
            u[:, -1] = 0
        return u

    compare(f, normal(8, 9), 4)


def test_buffers_are_reused() -> None:
    def f(x: Array) -> Any:
        out = np.empty_like(x)
        work = np.zeros(x.shape[0], np.float32)
        for k in range(x.shape[1]):
            np.multiply(x[:, k], 2, out=work)
            work += k
            out[:, k] = work
        return out, work

    compare(f, normal(3, 4))


def test_a_result_that_is_the_argument_is_the_callers_array() -> None:
    def f(x: Array) -> Array:
        x += 1
        return x

    x = np.zeros(3)
    g = minicc.jit(f, threads=1)
    assert g(x) is x
    assert g(x) is x
    assert x.tolist() == [2, 2, 2]


def test_arguments_of_any_layout() -> None:
    def f(x: Array) -> Any:
        x.reshape(-1)[0] = 5
        x[1] *= 2
        return x.sum()

    compare(f, normal(4, 6))
    compare(f, np.asfortranarray(normal(4, 6)))
    g = minicc.jit(f, threads=1)
    for x in (normal(4, 6), np.asfortranarray(normal(4, 6)), normal(4, 6)):
        mine, theirs = x.copy(order="K"), x.copy(order="K")
        same(g(mine), f(theirs))
        same(mine, theirs)


def test_written_before_and_after_a_break() -> None:
    def f(x: Array) -> Any:
        x[0] = 0
        v = x[1:]
        if x.sum() > 0:
            v *= 2
        x[0] = v.max()
        return v

    compare(f, normal(5))
    compare(f, -np.abs(normal(5)))


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_arguments_that_share_memory() -> None:
    def f(x: Array, y: Array) -> Array:
        x += 1
        return y * 2

    base = np.zeros(4)
    g = minicc.jit(f, threads=1)
    for _ in range(3):
        assert g(np.zeros(3), base[1:]).tolist() == (base[1:] * 2).tolist()
        before = base.copy()
        assert g(base[:3], base[1:]).tolist() == f(before[:3], before[1:]).tolist()
        assert base.tolist() == before.tolist()
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        minicc.jit(f, threads=1)(frozen, base)


STEPS: list[tuple[str, Function]] = [
    ("transpose", lambda v: v.T),
    ("row", lambda v: v[v.shape[0] // 2 :]),
    ("every other", lambda v: v[::2] if v.ndim else v),
    ("backwards", lambda v: v[..., ::-1]),
    ("flat", lambda v: v.reshape(-1)),
    ("ravel", lambda v: np.ravel(v)),
    ("wide", lambda v: v[None]),
    ("fold", lambda v: v.reshape(-1, 2) if v.size % 2 == 0 else v),
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=4),
    st.sampled_from(["+=", "[...]", "sort", "first"]),
)
def test_views_of_views(steps: list[tuple[str, Function]], write: str) -> None:
    def f(x: Array) -> Any:
        u = x + 0
        v = u
        for _, step in steps:
            v = step(v)
        if write == "+=":
            v += 1
        elif write == "[...]":
            v[...] = v * 2
        elif write == "sort":
            v[0] = v[-1]
        else:
            v[:1] = 7
        # for arrays that share memory come back as one, and others as NumPy lays them out
        return (u + 0).copy(), (v + 0).copy()

    from minicc.ir.interpret import Interpreter

    x = normal(4, 6)
    want = f(x)
    (module,) = minicc.jit(f, threads=1).lower(x).modules
    body = module.main.body
    same(Interpreter(module).region(body, [x], {}), want)


def part_written_twice(x: Array, y: Array) -> Array:
    """What is written lies in the whole, until the whole is written again."""
    x[1:] += y[0]
    x[1:3] = y[:2]
    x[1:] += y[0]
    x[1:3] = y[:2]
    return x


def part_kept(x: Array, y: Array) -> tuple[Array, Array]:
    row = y[:3] * 2
    x[1:4] = row
    x[2:] -= 1
    return x, row + x[1:4]


def joined_part_kept(x: Array, y: Array) -> tuple[Array, Array]:
    part = x * 2
    whole = np.concatenate([part, part])
    whole[1:] = whole[:-1]
    return whole, np.where(np.arange(len(x)) > 1, part, y)


def joined_twice(x: Array, y: Array) -> tuple[Array, ...]:
    part = x * 2
    inner = np.concatenate([part, part])
    outer = np.pad(np.concatenate([y, inner]), 1)
    outer[3:] -= 1
    return outer, part * y, inner[1:] + 1


def joined_in_a_loop(x: Array, y: Array) -> tuple[Array, Array]:
    part = x * 2
    whole = np.concatenate([part, y])
    for i in range(1, 40):
        whole[i % 9] += whole[i % 7]
    return whole, part + y


@pytest.mark.parametrize(
    "f", [part_written_twice, part_kept, joined_part_kept, joined_twice, joined_in_a_loop]
)
def test_a_new_part_outlives_the_whole(f: Function) -> None:
    compare(f, normal(5), normal(5, seed=1))


def twice(u: Any) -> None:
    row = u[5]
    row[0] -= 3
    row[0] -= 3


def views_of_views(u: Any) -> Any:
    row = u[5]
    part = row[1:3]
    part[0] = 1
    row[3] = part[0] + part[1]
    part[1] -= row[3]
    u[5] += row
    part[0] = 9
    return u, part


def joined(u: Any) -> Any:
    y = u * 1
    row = np.pad(u[1, 1:3] * 3, 1)
    y[0] = 7
    y[1] = row
    y[1, 0] += y[0, 0]
    return y


@pytest.mark.parametrize("f", [twice, views_of_views, joined], ids=lambda f: f.__name__)
def test_parts_that_change_before_what_they_are_of_is_copied(f: Function) -> None:
    """What a row is made of may not lie in the result before the rest of that is copied there."""
    compare(f, np.arange(24.0).reshape(6, 4))
    compare(f, np.arange(24).reshape(6, 4))


def doubled(u: Any) -> None:
    part = u[:-1]
    part.ravel()[0] = 3
    part[1:] = u[-1, -1]
    part *= 2


@pytest.mark.parametrize("shape", [(7, 16), (10, 16), (8, 4), (11, 64)])
def test_a_part_is_replaced_where_what_it_is_made_of_lies(shape: tuple[int, int]) -> None:
    """Blocks of rows that overlap may not read what one of them has written."""
    compare(doubled, np.arange(float(np.prod(shape))).reshape(shape))
    compare(doubled, np.arange(np.prod(shape)).reshape(shape))


UPDATES: list[Function] = [
    lambda u, v: u[1:].__isub__(0.5 * v[:-1]),
    lambda u, v: u[1:-1, 2::3].__imul__(v[1:-1, 2::3] + 1),
    lambda u, v: u[:, 5].__iadd__(v[2, 5] * u[:, 5]),
    lambda u, v: u[::-2].__iadd__(u[::-2] * v[::2]),
    lambda u, v: u[1:].__isub__(u[:-1]),  # what others write
    lambda u, v: u[:, 1:].__iadd__(u[:, 1:] * u[:, :-1]),
    lambda u, v: u[2:].__setitem__(..., u[2:][::-1] + u[2:]),
    lambda u, v: u.T[1:].__iadd__(v.T[1:]),
]


@pytest.mark.parametrize("k", range(len(UPDATES)))
@pytest.mark.parametrize("shape", [(8, 9), (70, 131), (257, 64), (3, 3000)])
def test_what_a_loop_replaces_is_read_once(k: int, shape: tuple[int, int]) -> None:
    update = UPDATES[k]

    def f(u: Array, v: Array) -> None:
        for _ in range(5):
            update(u, v)

    rng = np.random.default_rng(k)
    u, v = (rng.integers(-2, 3, shape).astype(np.float32) for _ in range(2))
    compare(f, u, v)


def test_an_update_in_a_loop_copies_nothing() -> None:
    def f(u: Any, v: Any) -> None:
        for _ in range(9):
            u[1:, :-1] -= 0.5 * v[:-1, 1:]

    x = np.ones((200, 220))
    module = lower(minicc.jit(f).lower(x, x.copy()).module, minicc.Options())
    names = [op.kernel for op in launches(module.main.body)][-8:]
    (kernel,) = [g for g in module.functions if g.name in names]
    assert kernel.attrs["updates"], "LLVM must not take its buffers for apart"


@pytest.mark.parametrize("element", [np.float64, np.int64, np.uint8])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, m: np.copyto(x, 5.0, where=m),
        lambda x, m: np.add.reduce(x, where=m),
        lambda x, m: np.maximum.reduce(x, where=m, initial=0),
        lambda x, m: np.sum(x, where=m),
    ],
    ids=["copyto", "add.reduce", "maximum.reduce", "sum"],
)
def test_a_mask_of_numbers_is_refused_as_numpy_does(f: Any, element: Any) -> None:
    x, m = np.arange(3.0), np.ones(3, element)
    with pytest.raises(TypeError, match="Cannot cast array data from") as wanted:
        f(x.copy(), m)
    with pytest.raises(TypeError) as raised:
        minicc.jit(f)(x.copy(), m)
    assert str(raised.value) == str(wanted.value)
    minicc.jit(f)(x, m.astype(bool))


def inside_of_a_copy(x: Array) -> tuple[Array, Array]:
    y = x.copy()
    y[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1]
    y[:, 0] = x[:, -1] - x[:, 1]
    return y, y - x


def box_of_a_copy(x: Array) -> tuple[Array, Array]:
    x = x.reshape(len(x), -1, 2)
    y = x.copy()
    y[1:-1, :, 1:] = x[1:-1, :, :1] * 3
    return y, x + y


def around_each_round(x: Array) -> Array:
    for _ in range(4):
        old = x.copy()
        x[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2]) * 0.3
        x[0] = old[-1]
        x[:, -1] = old[:, 0]
    return x


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [inside_of_a_copy, box_of_a_copy, around_each_round])
@pytest.mark.usefixtures("however_little")
def test_most_of_a_copy_at_several_sizes(f: Function, threads: int) -> None:
    g = minicc.jit(f, threads=threads)
    for shape in ((5, 6), (9, 4), (3, 2), (2, 6), (33, 40), (64, 2), (41, 42)):
        x = normal(*shape)
        same(g(x.copy()), f(x.copy()))
